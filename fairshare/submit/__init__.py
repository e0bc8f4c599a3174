"""From job specs to jobs in a queue: what to send, in which order and when, and a record that survives anything.

Pure: AWS is reached through the ports of `fairshare.submit.ports`, time and randomness are arguments. The only I/O is
the files of journal, lock and rate budget, and a look at whether the entry script exists. Where to look:

**Planning** makes a `dispatch.SubmitPlan` without a write: `prepare` is its course from top to bottom.

* `payload_target`: raw CreateTrainingJob requests as jobs; `resolve` fills in what a job does not say
* `checks` with `limits` (AWS's own), `places` (regions, URIs) and `raw_fields`; `report` collects what is wrong
* `sweep`: one written job to many; `dependencies`: ``after``, by place in the run; `only_failed`: a part of them
* `naming`, `retries`, `requests`: names, retry strategy and the frozen SubmitServiceJob request
* `waves`, `windows`, `rules`: the timetable, the wall clock, and what else holds jobs back; `forecast` predicts it
* `triggers`: the plan as a script instead

**Sending**: `dispatch` uploads and runs a `sending.Sending` to its end; `events` are what it tells.

* `release`: which jobs may go now, by `waves`, `conditions` (``after``), jobs in flight and `launching` (``auto``; the
  arithmetic is in `launches`); `fallback` moves jobs to their next queue
* `calls`: calls under way; `watch`: looks at the jobs, when somebody needs them
* `rate`: token bucket and back-off; `budget`: the same bucket for all processes of a user

**Remembering**: `journal` is the file, `records` what its lines say, `lines` how a line survives, `holder` who has it.

* `recovery`: what an interrupted session left, as a plan for the next; `outcomes`: how jobs ended
* `secrets`: what of a request never enters the journal, and comes back from where it was
"""
