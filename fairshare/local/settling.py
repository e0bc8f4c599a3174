"""How long changes of environments and queues take: counted in calls, so that tests foresee every status.

AWS answers at once and works on: a new resource is CREATING, a changed one UPDATING, a deleted one DELETING, and an
environment counts as used for a moment after its queue has gone (eventual consistency,
https://github.com/hashicorp/terraform-provider-aws/issues/2044). Clients poll, so polls are what is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VALID: Final = "VALID"


@dataclass(frozen=True)
class Settling:
    """How many describe calls see a resource in each passing status; 0 = none, the change is done at once.

    ``detaching`` is how many deletions of an environment are refused after its last queue has gone.
    """

    creating: int = 0
    updating: int = 0
    deleting: int = 0
    detaching: int = 0


AT_ONCE: Final = Settling()
"""Nothing takes time."""


class LifeCycle:
    """The ``status`` of one environment or queue.

    Args:
        creating: describe calls that see it CREATING.
    """

    def __init__(self, creating: int = 0) -> None:
        self.is_deleting = False
        self._status = "CREATING"
        self._polls_left = creating

    @property
    def is_changing(self) -> bool:
        """Whether a change is under way: it can be neither updated, nor deleted, nor attached."""
        return self.is_deleting or self._polls_left > 0

    @property
    def is_over(self) -> bool:
        """Whether it was deleted and is seen no more."""
        return self.is_deleting and self._polls_left == 0

    @property
    def status(self) -> str:
        """What a describe call tells now."""
        return self._status if self.is_changing else VALID

    def poll(self) -> str:
        """Return what a describe call tells, and count the call."""
        status = self.status
        self._polls_left = max(0, self._polls_left - 1)
        return status

    def update(self, polls: int) -> None:
        """A change begins that so many describe calls see."""
        self._status, self._polls_left = "UPDATING", polls

    def delete(self, polls: int) -> None:
        """Deletion begins; so many describe calls see it, more while there is something left to end."""
        self.is_deleting = True
        self._status, self._polls_left = "DELETING", polls
