"""Arithmetic on text: a Python expression reduced to numbers, operators and a few functions. Pure.

Rational results are exact (Fraction); what is irrational is a float and marked so. Every intermediate number is
bounded in size before it is computed, so that no expression takes noticeable time or memory.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

Number = Fraction | float

MAX_CHARS = 500
MAX_BITS = 13_000
"""Bound on numerator and denominator: about 3,900 decimal digits."""

_MAX_FACTORIAL = 1_000
_DIGITS = 15
_EXACT_DIGITS = 40

_PERCENT_OF = re.compile(r"%\s*(?:of|de)\b", re.IGNORECASE)
_PERCENT = re.compile(r"%(?=\s*(?:[-+*/)^,×÷·]|$))")
_SYMBOLS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "√": " sqrt ", "π": " pi "})
_LITERAL = re.compile(r"(\d+\.?\d*|\.\d+)(?:e([+-]?\d{1,4}))?", re.IGNORECASE)


class ArithmeticProblem(ValueError):
    """The expression cannot be computed; the text says why."""


@dataclass(frozen=True)
class Result:
    """`text` is the number as people write it; `exact` is False for a rounded one."""

    number: Number
    text: str
    exact: bool


def evaluate(expression: str) -> Result:
    """Computes an expression such as `2*(3+4)`, `15% of 80`, `2^10`, `sqrt(2)`, `round(7/3, 2)`.

    Raises ArithmeticProblem.
    """
    source = _normalised(expression)
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArithmeticProblem(f"{expression[:80]!r} is not an arithmetic expression") from error
    try:
        number = _Evaluator(source).value(tree.body)
    except ZeroDivisionError as error:
        raise ArithmeticProblem("division by zero") from error
    except OverflowError as error:
        raise ArithmeticProblem("the result is too large") from error
    except RecursionError as error:
        raise ArithmeticProblem("the expression is nested too deeply") from error
    return Result(number, *written(number))


def _normalised(expression: str) -> str:
    if len(expression) > MAX_CHARS:
        raise ArithmeticProblem(f"the expression has {len(expression)} characters; {MAX_CHARS} at most")
    text = expression.translate(_SYMBOLS).replace("^", "**").strip().rstrip("=?").strip()
    text = _PERCENT_OF.sub(" * 0.01 * ", text)
    return _PERCENT.sub(" * 0.01 ", text)


def _bounded(number: Number) -> Number:
    if isinstance(number, float):
        if not math.isfinite(number):
            raise ArithmeticProblem("the result is not a finite number")
    elif max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
        raise ArithmeticProblem("the result is too large")
    return number


def _whole(number: Number, what: str) -> int:
    if isinstance(number, float) or number.denominator != 1:
        raise ArithmeticProblem(f"{what} must be a whole number")
    return number.numerator


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
        if abs(base) != 1 and bits > 1 and (bits - 1) * abs(exponent.numerator) > MAX_BITS:
            raise ArithmeticProblem("the power is too large")
        if abs(base) == 1:
            return base if exponent.numerator % 2 else Fraction(1)
        return base**exponent.numerator
    try:
        return math.pow(base, exponent)
    except ValueError as error:
        raise ArithmeticProblem("a negative number has no real fractional power") from error


def _sqrt(number: Number) -> Number:
    if isinstance(number, Fraction) and number >= 0:
        top, bottom = math.isqrt(number.numerator), math.isqrt(number.denominator)
        if top * top == number.numerator and bottom * bottom == number.denominator:
            return Fraction(top, bottom)
    return math.sqrt(number)


def _round(number: Number, digits: Number = Fraction(0)) -> Number:
    places = _whole(digits, "the number of decimals")
    if abs(places) > 100:
        raise ArithmeticProblem("at most 100 decimals")
    scale = Fraction(10) ** places
    exact = Fraction(number) * scale
    half_up = math.floor(abs(exact) + Fraction(1, 2))  # as people round, not to even
    return Fraction(half_up if exact >= 0 else -half_up) / scale


def _factorial(number: Number) -> Number:
    n = _whole(number, "the argument of factorial")
    if not 0 <= n <= _MAX_FACTORIAL:
        raise ArithmeticProblem(f"factorial takes 0 to {_MAX_FACTORIAL}")
    return Fraction(math.factorial(n))


def _log(number: Number, base: Number | None = None) -> Number:
    if base is None:
        return math.log(number)
    result = math.log(number) / math.log(base)
    whole = Fraction(round(result)) if abs(result) < 1000 else None
    return whole if whole is not None and isinstance(base, Fraction) and _power(base, whole) == number else result


def _floating(fn: Callable[[float], float]) -> Callable[[Number], Number]:
    return lambda number: fn(float(number))


def _integers(fn: Callable[..., int]) -> Callable[..., Number]:
    return lambda *numbers: Fraction(fn(*(_whole(number, "each argument") for number in numbers)))


def _average(*numbers: Number) -> Number:
    return sum(numbers, Fraction(0)) / len(numbers)


_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Number]]] = {
    "sqrt": (1, 1, _sqrt),
    "abs": (1, 1, abs),
    "round": (1, 2, _round),
    "floor": (1, 1, lambda number: Fraction(math.floor(number))),
    "ceil": (1, 1, lambda number: Fraction(math.ceil(number))),
    "min": (1, 100, min),
    "max": (1, 100, max),
    "sum": (1, 100, lambda *numbers: sum(numbers, Fraction(0))),
    "mean": (1, 100, _average),
    "factorial": (1, 1, _factorial),
    "gcd": (2, 20, _integers(math.gcd)),
    "lcm": (2, 20, _integers(math.lcm)),
    "pow": (2, 2, _power),
    "log": (1, 2, _log),
    "ln": (1, 1, _log),
    "log10": (1, 1, lambda number: _log(number, Fraction(10))),
    "log2": (1, 1, lambda number: _log(number, Fraction(2))),
    **{
        name: (1, 1, _floating(getattr(math, name)))
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "degrees", "radians", "cbrt")
    },
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS = tuple(sorted(_FUNCTIONS))


class _Evaluator:
    """Walks the syntax tree; anything but numbers, operators and known calls is refused."""

    def __init__(self, source: str) -> None:
        self.source = source

    def value(self, node: ast.expr) -> Number:
        match node:
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
                number = self.literal(node)
            case ast.Name(id=name) if name in _CONSTANTS:
                number = _CONSTANTS[name]
            case ast.UnaryOp(op=ast.USub()):
                number = -self.value(node.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                number = self.value(node.operand)
            case ast.BinOp():
                number = self.binary(node.op, self.value(node.left), self.value(node.right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                number = self.call(name, args)
            case ast.Tuple():
                raise ArithmeticProblem("write decimals with a point and no thousands separators: 1234.5")
            case ast.Name(id=name):
                raise ArithmeticProblem(
                    f"{name} is not known; functions: {', '.join(FUNCTIONS)}; constants: pi, e, tau"
                )
            case _:
                raise ArithmeticProblem("only numbers, + - * / // % ^, brackets and functions are allowed")
        return _bounded(number)

    def literal(self, node: ast.Constant) -> Number:
        """The number as written: a float of Python would already have lost 0.1."""
        written = (ast.get_source_segment(self.source, node) or "").replace("_", "")
        if isinstance(node.value, int):
            return Fraction(node.value)
        if not (match := _LITERAL.fullmatch(written)) or abs(int(match[2] or 0)) > 1000:
            raise ArithmeticProblem(f"the number {written[:40]} is too large or too small")
        return Fraction(written)

    def binary(self, op: ast.operator, left: Number, right: Number) -> Number:
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return Fraction(left // right)
            case ast.Mod():
                return left % right
            case ast.Pow():
                return _power(left, right)
        raise ArithmeticProblem("only + - * / // % ^ are allowed")

    def call(self, name: str, args: list[ast.expr]) -> Number:
        if name not in _FUNCTIONS:
            raise ArithmeticProblem(f"there is no function {name}; known: {', '.join(FUNCTIONS)}")
        fewest, most, fn = _FUNCTIONS[name]
        if not fewest <= len(args) <= most:
            raise ArithmeticProblem(f"{name} takes {fewest} to {most} arguments, not {len(args)}")
        try:
            return fn(*(self.value(arg) for arg in args))
        except ArithmeticProblem:
            raise
        except ValueError as error:
            raise ArithmeticProblem(f"{name} is not defined there") from error


def written(number: Number) -> tuple[str, bool]:
    """The number as people write it, and whether that is exactly it."""
    if isinstance(number, float):
        return _plain(Decimal(repr(number)).normalize(Context(prec=_DIGITS))), False
    if number.denominator == 1:
        return str(number.numerator), True
    twos_and_fives = number.denominator
    places = 0
    while twos_and_fives > 1 and places <= _EXACT_DIGITS:
        twos_and_fives //= math.gcd(twos_and_fives, 10)
        places += 1
        if math.gcd(twos_and_fives, 10) == 1:
            break
    if twos_and_fives == 1:
        scaled = number * 10**places
        return _plain(Decimal(scaled.numerator).scaleb(-places, Context(prec=5000))), True
    context = Context(prec=_DIGITS)
    return _plain(context.divide(Decimal(number.numerator), Decimal(number.denominator))), False


def _plain(number: Decimal) -> str:
    """Without exponent where that stays short, without trailing zeros."""
    if number and not -20 <= number.adjusted() <= 20 and len(number.as_tuple().digits) <= _DIGITS:
        return f"{number.normalize():e}"
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
