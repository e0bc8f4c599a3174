"""How a wrong value is reported, and "did you mean": shared by everything that checks what a user wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class WrongValue(ValueError):
    """A value that a field cannot take. The reader of the file adds the key and the position.

    Args:
        message: what is wrong, without the key: ``must be a whole number, not true``.
        hint: what to write instead.
        at: where in the value, when only a part of it is wrong: ``("zip", "lr", 2)``.
    """

    def __init__(self, message: str, *, hint: str = "", at: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.at = at


class WrongValues(ValueError):
    """Several things wrong inside one value."""

    def __init__(self, wrong: Sequence[WrongValue]) -> None:
        super().__init__("; ".join(map(str, wrong)))
        self.wrong = tuple(wrong)


def suggest(word: str, options: Iterable[str]) -> str | None:
    """Return the option that ``word`` was probably meant to be, or None.

    A difference in case alone always matches; otherwise most of the letters have to agree.
    """
    from difflib import get_close_matches

    by_folded = {option.casefold(): option for option in options}
    close = get_close_matches(word.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, options: Iterable[str], noun: str) -> str:
    """Return a hint for an unknown word: ``did you mean HIGHPRI? (shares: HIGHPRI, LOWPRI)``.

    Args:
        word: what was written.
        options: what would have been right, in the order to show.
        noun: plural name of the options, e.g. ``shares``.
    """
    names = list(options)
    known = f"{noun}: {', '.join(names)}" if names else f"there are no {noun}"
    guess = suggest(word, names)
    return f"did you mean {guess}? ({known})" if guess else known
