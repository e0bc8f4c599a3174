"""What `fairshare setup` makes, and who may do what with it, as documents for people who deploy another way. Pure.

All are made of JSON types, and equal input gives equal documents.

- `cloudformation`: the whole stack as one template; `template` is the grammar of templates
- `batch`, `alarms`, `events`, `collector`: its parts: queues and what they need, alarms, what EventBridge carries, the
  function that publishes the gauges
- `iam`: the policies of roles; `access`: what they are about
"""
