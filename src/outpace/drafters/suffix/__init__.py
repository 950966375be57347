"""The suffix drafter: what usually follows, in this text and in earlier answers."""
