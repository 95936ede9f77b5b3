"""How people run, watch and talk to a system. Reaches a running one through the Redis API in `shared` only."""
