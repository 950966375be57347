"""The live page at `/`: static files and the routes that serve them; it reads `/outpace/events`."""
