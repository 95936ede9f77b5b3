"""Names of exercises, Spanish and English, and the muscles that they are counted for. Pure.

An exercise is known by its English name; one that is not in the table keeps the name that it was given, folded.
"""

from __future__ import annotations

import re

from workers.tools.timewords import fold

# name | muscle groups | other names
_TABLE = """
bench press | chest, triceps | bench, press banca, press de banca, banca, banco plano, press banca plano, flat bench
incline bench press | chest, shoulders | incline bench, press inclinado, press banca inclinado, banca inclinado
close grip bench press | triceps, chest | press banca cerrado, press cerrado, press banca agarre cerrado
dumbbell press | chest, triceps | press mancuernas, press con mancuernas, press de mancuernas, dumbbell bench press
chest fly | chest | fly, flyes, dumbbell fly, aperturas, aperturas con mancuernas, cruce de poleas, pec deck
dip | chest, triceps | dips, fondos, fondos en paralelas, paralelas
push up | chest, triceps | push ups, pushup, pushups, press ups, flexiones, flexiones de brazos, lagartijas
overhead press | shoulders, triceps | ohp, military press, press militar, shoulder press, press de hombros, press hombro
lateral raise | shoulders | lateral raises, side raises, elevaciones laterales, laterales, vuelos laterales
face pull | shoulders, back | face pulls, tiron a la cara
upright row | shoulders | remo al menton, remo vertical
squat | quadriceps, glutes | squats, back squat, sentadilla, sentadillas, sentadilla trasera
front squat | quadriceps, glutes | front squats, sentadilla frontal, sentadillas frontales
goblet squat | quadriceps, glutes | sentadilla goblet, sentadilla copa
bulgarian split squat | quadriceps, glutes | split squat, bulgarian squat, sentadilla bulgara, bulgaras
leg press | quadriceps, glutes | prensa, prensa de piernas, prensa de pierna
leg extension | quadriceps | leg extensions, extensiones de cuadriceps, extension de cuadriceps, extensiones de pierna
lunge | quadriceps, glutes | lunges, zancada, zancadas, desplantes, walking lunges
step up | quadriceps, glutes | step ups, subidas al cajon
deadlift | back, hamstrings, glutes | deadlifts, dl, peso muerto, peso muerto convencional
romanian deadlift | hamstrings, glutes | rdl, peso muerto rumano, rumano, stiff leg deadlift
sumo deadlift | glutes, hamstrings, back | peso muerto sumo
leg curl | hamstrings | leg curls, hamstring curl, curl femoral, femoral, curl de femoral, femoral tumbado
hip thrust | glutes | hip thrusts, empuje de cadera, puente de gluteos, glute bridge
good morning | hamstrings, back | good mornings, buenos dias
calf raise | calves | calf raises, gemelos, elevacion de gemelos, elevaciones de gemelos, elevacion de talones
pull up | back, biceps | pull ups, pullup, pullups, dominadas, dominada
chin up | back, biceps | chin ups, chinup, chinups, dominadas supinas, dominada supina
lat pulldown | back, biceps | pulldown, pulldowns, lat pulldowns, jalon, jalones, jalon al pecho, polea al pecho
barbell row | back, biceps | row, rows, bent over row, barbell rows, remo, remo con barra, remo barra
dumbbell row | back, biceps | dumbbell rows, one arm row, remo con mancuerna, remo mancuerna, remo a una mano
seated row | back, biceps | cable row, remo en polea, remo sentado, remo gironda, remo en polea baja
shrug | back | shrugs, encogimientos, encogimientos de hombros
biceps curl | biceps | curl, curls, bicep curl, curl de biceps, curl biceps, barbell curl, curl con barra, dumbbell curl
hammer curl | biceps | hammer curls, curl martillo
triceps extension | triceps | tricep extension, triceps pushdown, pushdown, extension de triceps, triceps en polea
skull crusher | triceps | skull crushers, press frances, rompecraneos
plank | core | planks, plancha, planchas, plancha abdominal
crunch | core | crunches, abdominales, abs, sit up, sit ups, situps, encogimientos abdominales
leg raise | core | leg raises, hanging leg raise, elevaciones de piernas, elevacion de piernas
russian twist | core | russian twists, giros rusos
back extension | back | back extensions, hyperextensions, hiperextensiones, lumbares
kettlebell swing | glutes, hamstrings | kettlebell swings, swing, swings, balanceo con pesa rusa
clean | full body | power clean, cleans, cargada, cargadas
snatch | full body | snatches, arrancada, arrancadas
clean and jerk | full body | dos tiempos, cargada y envion
burpee | full body | burpees
running | cardio | run, correr, carrera, jog, jogging, cinta, treadmill, rodaje
walking | cardio | walk, andar, caminar, caminata, paseo
cycling | cardio | bike, cycle, bici, bicicleta, spinning, ciclismo
swimming | cardio | swim, nadar, natacion
rowing machine | cardio | rower, rowing, erg, remoergometro, maquina de remo, remo ergometro
elliptical | cardio | eliptica, cross trainer
jump rope | cardio | skipping, skipping rope, comba, saltar a la comba, saltos a la comba, saltar la cuerda
stair climber | cardio | stairs, stairmaster, escaleras, escaladora
"""


def _read() -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    names: dict[str, str] = {}
    muscles: dict[str, tuple[str, ...]] = {}
    for line in _TABLE.strip().splitlines():
        name, groups, others = (part.strip() for part in line.split("|"))
        muscles[name] = tuple(group.strip() for group in groups.split(","))
        for alias in (name, *others.split(",")):
            if names.setdefault(alias.strip(), name) != name:
                raise ValueError(f"{alias.strip()} names both {names[alias.strip()]} and {name}")
    return names, muscles


_NAMES, MUSCLES = _read()
KNOWN = tuple(MUSCLES)
COUNTED = {"pull up", "chin up", "push up", "dip", "burpee", "crunch", "leg raise", "jump rope"}
"""Exercises of which a number alone is how often."""


def exercise_named(said: str) -> str:
    """The exercise that was meant: its English name if the table has it, else what was said, folded."""
    name = fold(said.replace("-", " ").replace("_", " ")).strip(" :.,")
    name = re.sub(r" ?\b(?:lastrad[oa]s?|weighted)\b ?", "", name) or name  # its weight says so
    return _NAMES.get(name) or _NAMES.get(name.removeprefix("el ").removeprefix("la ")) or name


def muscles_of(exercise: str) -> tuple[str, ...]:
    """The muscle groups that a set of it counts for; `other` for one that is not in the table."""
    return MUSCLES.get(exercise, ("other",))
