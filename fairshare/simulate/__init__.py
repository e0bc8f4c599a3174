"""What would this policy do to this workload? Workloads -> the scheduler on a virtual clock -> figures and a report.

* `workload`: jobs with their arrival and run time; `workload_file` and `generate` draw them from a YAML file,
  `trace` and `columns` read them from a trace; `sources` knows which is which
* `settings`: policies to compare, from project files and flags; `variants` changes a project file
* `feasible`: which jobs a setting can take at all
* `runner`: one workload under one policy, on the engine; `meter` watches it, `course` is what happened
* `timeline`, `figures`: what it means for shares, sizes and the pool
* `expect`, `assertions`: what the figures must be
* `document`, `notes`: the same as JSON, and what it rests on
* `report`, `charts`, `gantt`: the same as one HTML page
"""
