"""Files a user writes (``fairshare.yaml``, job files) -> validated models; every error has file:line:column.

How a file becomes a model: `yaml_source` reads it into a tree that keeps positions and the written text, `sections`
validates that tree against pydantic models whose values are read by `fields`, and collects every problem at once.
`project` and `job_file` are the two kinds of file, `project_file`, `alarms`, `prices`, `policy_tests`, `job_sections`
and `wave_sections` their shapes; `project_checks` and `quota_checks` look at a project as a whole, `jobs` is what a job
file becomes.
`sweeps`, `durations`, `sizes` and `times` read what people write with a syntax of its own; `paths` and `errors` serve
everybody else too.
"""
