"""The scheduler core: one pure engine behind the local AWS, the simulator and every prediction.

* `policy`: share arithmetic; the only place that inverts a weight
* `commands`, `outcomes`: what the engine is told, and what it tells
* `jobs`, `shares`, `queues`: state, and what all kinds of queues have in common; first in, first out is in `queues`
* `fair_share`: the share that used least, measured by its weight, goes first
* `quota`, `books`, `preemption`: quota shares, their arithmetic, and whom they stop
* `retries`: what follows a failed attempt
* `heads`: blocked heads and their clocks
* `positions`: since when jobs are where they are in a queue
* `resources`, `calendar`: what exists, and what is still to come
* `engine`: the state machine; import the vocabulary from here
* `driver`: moves an engine and an executor forward on a clock
* `clock`: the only place that reads the machine's time
"""
