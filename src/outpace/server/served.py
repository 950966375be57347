"""What every route needs: the model, the service that runs it, and the server's own parts."""

from dataclasses import dataclass

from outpace.api import Model
from outpace.engine.service import Service
from outpace.server.auth import Doorkeeper
from outpace.server.limits import Quotas
from outpace.server.metrics.history import History
from outpace.server.metrics.meters import Meters
from outpace.server.settings import Settings
from outpace.server.wire.problems import Problem
from outpace.text.grammar.compile import Grammars


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One model being served.

    grammars: the model's, within the server's bounds. created: seconds since 1970.
    """

    model: Model
    service: Service
    settings: Settings
    meters: Meters
    history: History
    door: Doorkeeper
    quotas: Quotas
    grammars: Grammars
    created: int

    def check_model(self, name: str | None) -> None:
        """A request names this model, or none.

        Raises:
            Problem: 404.
        """
        if name not in (None, "", self.model.name):
            raise Problem(
                status=404,
                message=f"there is no model {name!r} here; this server has {self.model.name!r}",
                param="model",
                code="model_not_found",
            )
