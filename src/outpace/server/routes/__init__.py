"""One file per group of paths; each makes a router for what is being served."""
