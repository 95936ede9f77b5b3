"""Units of measurement, Spanish and English, and what one is in another. Pure.

Factors are exact by definition where there is one: BIPM, *The International System of Units*, 9th edition (2019), and
NIST Special Publication 811 (2008), appendix B, for units outside it (international yard and pound of 1959, US gallon
of 231 cubic inches, imperial gallon of 4.54609 litres, thermochemical calorie, horsepower of 550 ft·lbf/s). A month
is a twelfth of a year of 365.2425 days, the mean of the Gregorian calendar. Kilo is 1000 in kB and 1024 in KiB (IEC
80000-13).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fractions import Fraction

from workers.tools.timewords import fold

# dimension | symbol | factor to the first unit of the dimension, ~ if it is rounded | other names
_TABLE = """
length | m | 1 | meter, meters, metre, metres, metro, metros
length | km | 1000 | kilometer, kilometers, kilometre, kilometres, kilometro, kilometros
length | cm | 1/100 | centimeter, centimeters, centimetre, centimetres, centimetro, centimetros
length | mm | 1/1000 | millimeter, millimeters, millimetre, millimetres, milimetro, milimetros
length | um | 1/1000000 | micrometer, micron, microns, micra, micras, µm
length | in | 0.0254 | inch, inches, pulgada, pulgadas, "
length | ft | 0.3048 | foot, feet, pie, pies
length | yd | 0.9144 | yard, yards, yarda, yardas
length | mi | 1609.344 | mile, miles, milla, millas
length | nmi | 1852 | nautical mile, nautical miles, milla nautica, millas nauticas
mass | kg | 1 | kilogram, kilograms, kilo, kilos, kilogramo, kilogramos
mass | g | 1/1000 | gram, grams, gramo, gramos
mass | mg | 1/1000000 | milligram, milligrams, miligramo, miligramos
mass | t | 1000 | tonne, tonnes, metric ton, tonelada, toneladas
mass | lb | 0.45359237 | pound, pounds, lbs, libra, libras
mass | oz | 0.028349523125 | ounce, ounces, onza, onzas
mass | st | 6.35029318 | stone, stones
volume | l | 1 | liter, liters, litre, litres, litro, litros
volume | ml | 1/1000 | milliliter, milliliters, millilitre, millilitres, mililitro, mililitros, cc, cm3
volume | cl | 1/100 | centiliter, centilitre, centilitro, centilitros
volume | m3 | 1000 | cubic meter, cubic meters, cubic metre, cubic metres, metro cubico, metros cubicos, m^3
volume | gal | 3.785411784 | gallon, gallons, us gallon, us gallons, galon, galones
volume | imp gal | 4.54609 | imperial gallon, imperial gallons, uk gallon, galon imperial
volume | pt | 0.473176473 | pint, pints, us pint, pinta, pintas
volume | imp pt | 0.56826125 | imperial pint, imperial pints, uk pint
volume | fl oz | 0.0295735295625 | fluid ounce, fluid ounces, onza liquida, onzas liquidas
volume | cup | 0.2365882365 | cups, taza, tazas
volume | tbsp | 0.01478676478125 | tablespoon, tablespoons, cucharada, cucharadas
volume | tsp | 0.00492892159375 | teaspoon, teaspoons, cucharadita, cucharaditas
area | m2 | 1 | square meter, square meters, square metre, square metres, metro cuadrado, metros cuadrados, m^2
area | km2 | 1000000 | square kilometer, square kilometers, kilometro cuadrado, kilometros cuadrados, km^2
area | cm2 | 1/10000 | square centimeter, centimetro cuadrado, centimetros cuadrados, cm^2
area | ha | 10000 | hectare, hectares, hectarea, hectareas
area | ac | 4046.8564224 | acre, acres
area | ft2 | 0.09290304 | square foot, square feet, sq ft, pie cuadrado, pies cuadrados, ft^2
area | mi2 | 2589988.110336 | square mile, square miles, milla cuadrada, millas cuadradas
time | s | 1 | second, seconds, sec, segundo, segundos
time | ms | 1/1000 | millisecond, milliseconds, milisegundo, milisegundos
time | min | 60 | minute, minutes, minuto, minutos
time | h | 3600 | hour, hours, hr, hora, horas
time | d | 86400 | day, days, dia, dias
time | week | 604800 | weeks, semana, semanas
time | month | 2629746 | months, mes, meses
time | year | 31556952 | years, yr, ano, anos
speed | m/s | 1 | mps, meters per second, metres per second, metros por segundo
speed | km/h | 5/18 | kmh, kph, kilometers per hour, kilometres per hour, kilometros por hora
speed | mph | 0.44704 | mi/h, miles per hour, millas por hora
speed | kn | 463/900 | knot, knots, nudo, nudos, kt
speed | ft/s | 0.3048 | feet per second, pies por segundo
energy | J | 1 | joule, joules, julio, julios
energy | kJ | 1000 | kilojoule, kilojoules, kilojulio, kilojulios
energy | cal | 4.184 | calorie, small calorie
energy | kcal | 4184 | kilocalorie, kilocalories, kilocaloria, kilocalorias, calories, calorias
energy | Wh | 3600 | watt hour, vatio hora, watios hora
energy | kWh | 3600000 | kilowatt hour, kilowatt hours, kilovatio hora, kilovatios hora
energy | BTU | 1055.05585262 | btus
power | W | 1 | watt, watts, vatio, vatios
power | kW | 1000 | kilowatt, kilowatts, kilovatio, kilovatios
power | hp | ~745.69987158227022 | horsepower
power | CV | 735.49875 | caballo, caballos, metric horsepower, ps
pressure | Pa | 1 | pascal, pascals, pascales
pressure | hPa | 100 | hectopascal, hectopascals, hectopascales
pressure | kPa | 1000 | kilopascal, kilopascals, kilopascales
pressure | bar | 100000 | bars, bares
pressure | mbar | 100 | millibar, millibars, milibar, milibares
pressure | atm | 101325 | atmosphere, atmospheres, atmosfera, atmosferas
pressure | psi | ~6894.757293168361 | pounds per square inch, libras por pulgada cuadrada
pressure | mmHg | 133.322387415 | millimeters of mercury, milimetros de mercurio
data | B | 1 | byte, bytes, octet
data | bit | 1/8 | bits
data | kB | 1000 | kilobyte, kilobytes
data | MB | 1000000 | megabyte, megabytes
data | GB | 1000000000 | gigabyte, gigabytes
data | TB | 1000000000000 | terabyte, terabytes
data | KiB | 1024 | kibibyte, kibibytes
data | MiB | 1048576 | mebibyte, mebibytes
data | GiB | 1073741824 | gibibyte, gibibytes
data | Mbit | 125000 | megabit, megabits
data | Gbit | 125000000 | gigabit, gigabits
angle | rad | 1 | radian, radians, radian, radianes
angle | deg | ~0.017453292519943295 | degree, degrees, grado, grados, °
temperature | K | 1 | kelvin, kelvins
temperature | °C | 1 | c, celsius, centigrade, degrees celsius, grados celsius, grados centigrados, centigrados, ºc
temperature | °F | 5/9 | f, fahrenheit, degrees fahrenheit, grados fahrenheit, ºf
consumption | l/100km | 1 | litros a los 100, liters per 100 km, litres per 100 km
consumption | mpg | ~235.2145833333333 | miles per gallon, millas por galon
"""

_ZERO = {"K": Fraction(0), "°C": Fraction("273.15"), "°F": Fraction("273.15") - 32 * Fraction(5, 9)}
"""Where a scale of temperature begins, in kelvin."""

_RECIPROCAL = {"mpg"}
"""More of it is less of the first unit of its dimension."""


class UnitProblem(ValueError):
    """A unit is not known, or two do not measure the same; the text says what is."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its symbol, what it measures, and how many of the dimension's first unit it is (`exact`, or rounded)."""

    symbol: str
    dimension: str
    factor: Fraction
    exact: bool


def _read() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """By symbol as written, and by folded symbol or name; where folding makes two the same, the first in the table."""
    exact: dict[str, Unit] = {}
    folded: dict[str, Unit] = {}
    for line in _TABLE.strip().splitlines():
        dimension, symbol, factor, names = (part.strip() for part in line.split("|"))
        exact[symbol] = unit = Unit(symbol, dimension, Fraction(factor.lstrip("~")), not factor.startswith("~"))
        for name in (symbol, *names.split(",")):
            folded.setdefault(fold(name), unit)
    return exact, folded


_EXACT, _FOLDED = _read()


def find_unit(name: str) -> Unit:
    """The unit of a symbol or name. Raises UnitProblem with the closest ones."""
    said = name.strip().rstrip(".")
    unit = _EXACT.get(said) or _FOLDED.get(fold(said))
    if unit is None:
        close = difflib.get_close_matches(fold(said), _FOLDED, 3, 0.7)
        known = "such as km, mi, kg, lb, l, gal, °C, °F, kWh, km/h (no currencies)"
        guess = f"was {' or '.join(close)} meant?" if close else f"known are units {known}"
        raise UnitProblem(f"{name[:40]!r} is no unit that is known here; {guess}")
    return unit


def convert(value: Fraction, source: Unit, target: Unit) -> Fraction:
    """So much of one unit in another. Raises UnitProblem if they measure different things."""
    if source.dimension != target.dimension:
        raise UnitProblem(f"{source.symbol} is {source.dimension}, {target.symbol} is {target.dimension}")
    if source.dimension == "temperature":
        kelvin = value * source.factor + _ZERO[source.symbol]
        if kelvin < 0:
            raise UnitProblem("below absolute zero")
        return (kelvin - _ZERO[target.symbol]) / target.factor
    if (source.symbol in _RECIPROCAL) != (target.symbol in _RECIPROCAL):
        if value == 0:
            raise UnitProblem("a consumption of nothing has no such value")
        return source.factor * target.factor / value
    return value * source.factor / target.factor
