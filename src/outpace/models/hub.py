"""The model hub as outpace uses it: is it there, what does a repository hold, bring these files.

One small class, so that tests and air-gapped sites can put another in its place. The hub's own
client retries for 20 seconds and more when there is no network; `trouble` asks once, briefly,
beforehand.
"""

from collections.abc import Sequence
from pathlib import Path

from outpace.errors import ModelNotFound, OfflineError

_PROBE_TIMEOUT_S = 3.0
_LIST_TIMEOUT_S = 20.0


class Hub:
    """The real hub, through huggingface_hub; its token, endpoint and cache are honoured."""

    def trouble(self) -> str | None:
        """Why the hub cannot be used now, in words, or None. Takes at most a few seconds."""
        import huggingface_hub
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            return "HF_HUB_OFFLINE is set"
        try:
            huggingface_hub.get_session().head(constants.ENDPOINT, timeout=_PROBE_TIMEOUT_S)
        except (
            Exception
        ) as error:  # each HTTP library has its own tree; any failure means "not now"
            return f"unreachable ({first_line(error)})"
        return None

    def listing(self, repo: str, revision: str | None) -> tuple[str, tuple[str, ...]]:
        """(commit, file names) of a repository. Raises ModelNotFound with the hub's reason."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HFValidationError, RevisionNotFoundError
        from huggingface_hub.errors import RepositoryNotFoundError as Missing

        try:
            info = HfApi().model_info(repo, revision=revision, timeout=_LIST_TIMEOUT_S)
        except (Missing, RevisionNotFoundError, HFValidationError) as error:  # gated is Missing too
            wanted = f"{repo}@{revision}" if revision else repo
            raise ModelNotFound(
                f"the hub has no readable model {wanted!r} ({first_line(error)}); check the "
                f"name, and for a gated model accept its terms there and run `hf auth login`"
            ) from error
        except Exception as error:  # whatever else the HTTP layer may raise
            raise OfflineError(
                f"the hub did not answer for {repo} ({first_line(error)}); try again later"
            ) from error
        return info.sha or revision or "main", tuple(f.rfilename for f in info.siblings or ())

    def snapshot(self, repo: str, revision: str | None, names: Sequence[str]) -> Path:
        """Bring these files of one revision into the hub's own cache; the folder that holds them.

        Raises OfflineError when the download stops; what has arrived is kept and resumed next time.
        """
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(repo, revision=revision, allow_patterns=list(names)))
        except Exception as error:  # each HTTP library has its own tree of errors
            raise OfflineError(
                f"the download of {repo} from the hub stopped ({first_line(error)}); run the same "
                f"command again to resume it"
            ) from error

    def cached(self, repo: str, revision: str | None) -> Path | None:
        """The folder of an earlier snapshot, without asking the network; None if there is none."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
        )

        try:
            return Path(snapshot_download(repo, revision=revision, local_files_only=True))
        except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError):
            return None


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its class name when it has none."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
