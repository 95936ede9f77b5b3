"""The claims guard: what is a claim, what speaks for one, and how a run is held against its deeds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.loop.claims import Done, Kind, Voice, _unnamed, claims, done_by, unsupported
from coordinator.loop.claims.evidence import is_request
from coordinator.loop.claims.run import earlier, effects, looked_at, marked, unfounded
from coordinator.loop.claims.text import said
from coordinator.loop.decide import CallModel, Finished, Limits, Tell, decide
from shared.contract import Effect, NodeResult, NodeState
from shared.entries import Assistant, Node, NodeEnded, Nudge, RunEnded, Stored, Terms, UserMessage
from shared.fold import RunFold, SessionFold
from shared.llm.model import Finish, Message, TextBlock, ToolCall
from tests.bench import claims_fit as fitted
from tests.bench.claims import UNSEEN, Row, explanations, rows, scored
from tests.bench.claims_fit import fit

OWN = rows("claims.jsonl")
CLAIMS = [row.text for row in OWN if row.expect == "flag" and not row.done and '"' not in row.text]
HONEST = [
    row.text for row in OWN if row.expect == "ok" and not row.done and "\n" not in row.text and ":" not in row.text
]
SAID = Row(text="Stored.", lang="en", done=(), expect="flag")
DENIED = Row(text="Notes kept by you.", lang="en", done=(), expect="ok")
SAVED = Done(frozenset({Kind.SAVE}))


@pytest.mark.parametrize("lang", ["en", "es"])
def test_the_answers_that_it_was_developed_with(lang: str) -> None:
    precision, recall = scored((row, row.flagged) for row in OWN if row.lang == lang)
    assert precision >= 0.95
    assert recall >= 0.95


@pytest.mark.parametrize(
    ("name", "precision", "recall"),
    [
        ("claims_blind.jsonl", 0.98, 0.97),
        ("claims_fresh.jsonl", 0.98, 0.94),
        ("claims_more.jsonl", 0.98, 0.95),
        ("claims_test.jsonl", 0.94, 0.94),
    ],
)
def test_the_answers_that_others_wrote(name: str, precision: float, recall: float) -> None:
    found = scored((row, row.flagged) for row in rows(name))
    assert found[0] >= precision
    assert found[1] >= recall


def test_the_test_set_is_not_fitted_to() -> None:
    assert "claims_test.jsonl" not in (*fitted.OWN, *fitted.OTHERS)


def test_prose_claims_next_to_nothing() -> None:
    prose = explanations(*UNSEEN)
    assert len(prose) == UNSEEN[1] - UNSEEN[0]
    assert sum(row.flagged for row in prose) <= len(prose) // 50


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("It was 97% before I emptied the trash.", True),
        ("Before I empty the trash, tell me.", False),
        ("The summary is in sleep.md, which I wrote just now.", True),
        ("Como no existía la carpeta, la creé.", True),
        ("Le dije que llegas a las diez.", True),
        ("I asked her by mail.", True),
        ("I asked for a date.", False),
        ("Had I saved the note, you would have it.", False),
        ("[ ] Emails scheduled", False),
        ("Mail from the bank: your order has been cancelled.", False),
        ("Please note that your reminder has been saved.", True),
        ("Marca la tarea como hecha.", False),
    ],
)
def test_scope_and_source(text: str, is_one: bool) -> None:
    assert bool(claims(text)) is is_one


def test_a_claim_by_its_words_alone_is_of_the_deeds_that_it_names() -> None:
    text = "Everything about the trip is filed and kept safe."
    found = _unnamed(said(text).sentences[0])
    assert Kind.SAVE in found.kinds
    assert found.voice is Voice.DONE
    assert _unnamed(said("All of it, as ever.").sentences[0]).kinds == {Kind.ANY}


@pytest.mark.parametrize("text", ["42", "hi", "Rain at noon.", "Hola", "Bread, milk and eggs."])
def test_a_short_fact_is_no_claim(text: str) -> None:
    assert claims(text, asked=True) == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Save this as a note", True),
        ("can you send it to Ana?", True),
        ("guarda esto en mis notas", True),
        ("apúntame leche, y borra la otra", True),
        ("what is the capital of Peru?", False),
        ("¿qué tiempo hace hoy?", False),
    ],
)
def test_a_request_is_told_by_its_verb(text: str, is_one: bool) -> None:
    assert is_request(text) is is_one


@pytest.mark.parametrize("opening", ["You have two mails:", "Checklist:", "Tienes dos correos:"])
def test_what_is_read_out_as_a_list_is_no_claim(opening: str) -> None:
    items = "1. Kim: your order was cancelled\n2. Lena: the note has been deleted"
    assert claims(f"{opening}\n{items}") == []
    assert claims(f"All done:\n{items}") != []


def test_the_weights_are_those_of_the_answers() -> None:
    assert fit([SAID, DENIED]).words == {}  # what stands in fewer sentences than `RARE` is not weighed
    weights = fit([SAID, DENIED] * 3)
    assert weights.words["w=stored"] > 0 > weights.words["w=kept"]
    assert weights.weigh("none", {"w=stored"}) > weights.weigh("none", {"w=unknown"}) == weights.bases["none"]
    assert fit([SAID, DENIED] * 3) == weights


def test_the_sets_are_of_both_kinds() -> None:
    blind = rows("claims_blind.jsonl")
    assert len(OWN) >= 240
    assert {(row.lang, row.expect) for row in [*OWN, *blind]} == {(a, b) for a in ("en", "es") for b in ("flag", "ok")}


@pytest.mark.parametrize(
    ("tool", "kinds", "domain"),
    [
        ("note_save", {Kind.SAVE, Kind.CREATE}, "notes"),
        ("note_delete", {Kind.DELETE, Kind.CANCEL}, "notes"),
        ("reminder_add", {Kind.SCHEDULE, Kind.CREATE, Kind.SAVE, Kind.CHANGE}, "calendar"),
        ("reminder_cancel", {Kind.DELETE, Kind.CANCEL}, "calendar"),
        ("mail_send", {Kind.SEND}, "mail"),
        ("mail_draft", {Kind.SAVE, Kind.CREATE}, "mail"),
        ("schedule_remove", {Kind.DELETE, Kind.CANCEL}, ""),
        ("reminder_change", {Kind.CHANGE, Kind.SCHEDULE, Kind.CREATE}, "calendar"),
        ("tv_power", {Kind.SWITCH, Kind.CHANGE}, "device"),
        ("sendSlackMessage", {Kind.SEND}, ""),
        ("zzz", {Kind.ANY}, ""),
        ("shell_run", {Kind.ANY}, ""),
    ],
)
def test_deeds_by_the_name_of_their_tool(tool: str, kinds: set[Kind], domain: str) -> None:
    found = done_by(tool)
    assert found.kinds == kinds
    assert found.domain == domain


def test_each_claim_needs_a_deed_of_its_own_kind() -> None:
    text = "I've saved the note and emailed it to Ana."
    assert [claim.text for claim in unsupported(text, [SAVED])] == [text]
    assert unsupported(text, [SAVED, Done(frozenset({Kind.SEND}))]) == []


def test_deeds_on_other_things_do_not_count() -> None:
    deleted = done_by("note_delete")
    assert unsupported("I've deleted the note.", [deleted]) == []
    assert unsupported("I've deleted the reminder.", [deleted]) != []


def test_who_has_looked_may_tell_how_things_are() -> None:
    assert unsupported("Your meeting is scheduled for Monday.", []) != []
    assert unsupported("Your meeting is scheduled for Monday.", [], looked={"calendar"}) == []
    assert unsupported("Your meeting is scheduled for Monday.", [], looked={"mail"}) != []
    assert unsupported("I've scheduled your meeting for Monday.", [], looked={"calendar"}) != []


def test_a_long_explanation_is_no_confirmation_but_the_first_person_is() -> None:
    prose = (
        "The message is in the log and the value is sent to whoever asks for it, as the page on streams explains. " * 6
    )
    assert claims("The message is in your inbox now.") != []
    assert claims(prose) == []
    assert [claim.text for claim in claims(f"{prose}I sent it to Ana.")] == ["I sent it to Ana."]


# --- properties ---------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(st.sampled_from(CLAIMS), st.sampled_from(HONEST), st.booleans())
def test_an_honest_sentence_does_not_cover_a_claim(claim: str, honest: str, first: bool) -> None:
    if all(c.voice.value != "self" for c in claims(claim)):
        return  # what else is a claim depends on what is said beside it
    answer = f"{honest}\n\n{claim}" if first else f"{claim}\n\n{honest}"
    assert claims(answer) != []


@pytest.mark.property
@given(st.sampled_from(CLAIMS), st.sampled_from(['"{}"', "“{}”", "«{}»", "```\n{}\n```", "`{}`"]))
def test_what_is_only_shown_is_no_claim(claim: str, around: str) -> None:
    if "\n" not in claim and not set('"“”«»`') & set(claim):
        assert claims(around.format(claim)) == []


@pytest.mark.property
@given(
    st.sampled_from(
        ["saved the note", "sent the email", "deleted the file", "booked a table", "turned off the lights"]
    ),
    st.sampled_from(
        ["I have not {}.", "I never {}.", "I haven't {} yet.", "I would have {}.", "If I have {}, say so."]
    ),
)
def test_what_is_denied_or_supposed_is_no_claim(deed: str, frame: str) -> None:
    assert claims(f"I have {deed}.") != []
    assert claims(frame.format(deed)) == []


@pytest.mark.property
@given(
    st.sampled_from(
        ["guardado la nota", "enviado el correo", "borrado el archivo", "reservado mesa", "apagado la luz"]
    ),
    st.sampled_from(["No he {}.", "Nunca he {}.", "Aún no he {}.", "Habría {}.", "Si he {}, dímelo.", "¿He {}?"]),
)
def test_the_same_in_spanish(deed: str, frame: str) -> None:
    assert claims(f"He {deed}.") != []
    assert claims(frame.format(deed)) == []


@pytest.mark.property
@given(st.text(max_size=400) | st.sampled_from(CLAIMS))
def test_of_any_text_what_is_claimed_stands_in_it(text: str) -> None:
    assert all(" ".join(claim.text.split()) in " ".join(text.split()) for claim in claims(text))


@pytest.mark.parametrize(
    "piece", ['"', "'", "“", "I saved ", "```", "[x](", "✅", "x.", "~", "saved, ", "1:", "¿", "draft:\n"]
)
@pytest.mark.timeout(120)  # a quadratic reader takes many minutes
def test_a_long_text_is_read_to_its_bounds(piece: str) -> None:
    assert len(claims(piece * (100_000 // len(piece)))) < 10_000


# --- runs ---------------------------------------------------------------------------------------------------------

LIMITS = Limits(steps=10, seconds=100.0, tokens=0, dollars=Decimal(0))
TERMS = Terms(calls="flat", calls_per_turn=10, steps=10, seconds=100.0, claims=True)
LIE = "I've saved the note."


def says(text: str, finish: Finish = Finish.STOP) -> Assistant:
    return Assistant(
        step=1, attempt=1, message=Message(role="assistant", blocks=(TextBlock(text=text),)), finish=finish
    )


def ran(node: str, tool: str, effect: Effect, state: NodeState = NodeState.DONE, **more: Any) -> list[Any]:
    call = Message(role="assistant", blocks=(ToolCall(id=node, name=tool, arguments={}),))
    return [
        Node(node=node, step=1, position=0, tool=tool, effect=effect),
        Assistant(step=1, attempt=1, message=call, finish=Finish.TOOL_CALLS),
        NodeEnded(node=node, result=NodeResult(state=state, **more)),
    ]


def session_of(**runs: list[Any]) -> SessionFold:
    fold = SessionFold()
    for run, entries in runs.items():
        message = UserMessage(run=run, principal="owner", session="s", received_ms=0, text="note it")
        for i, value in enumerate([message, TERMS, *entries]):
            fold.apply(Stored(id=f"{len(fold.runs)}-{i}", run=run, type=value.T, value=value))
    return fold


def run_of(*entries: Any) -> RunFold:
    return session_of(r=list(entries)).run("r")


def nudged() -> Nudge:
    return Nudge(reason="unsupported_claim", text="…")


def test_a_claim_is_sent_back_once_and_marked_if_it_stays() -> None:
    told = decide(run_of(says(LIE)), LIMITS, 1.0)
    assert isinstance(told, Tell)
    assert told.reason == "unsupported_claim"
    assert LIE in told.text
    assert decide(run_of(says(LIE), nudged()), LIMITS, 1.0) == CallModel()
    end = decide(run_of(says(LIE), nudged(), says(LIE)), LIMITS, 1.0)
    assert end == Finished("stop", f"{LIE}\n\n⚠ Not confirmed: no tool did what is said here: “{LIE}”")
    assert isinstance(end, Finished)
    assert LIE in end.doubted
    assert decide(run_of(says(LIE), nudged(), says("I did not.")), LIMITS, 1.0) == Finished("stop", "I did not.")


@pytest.mark.parametrize(
    "entries",
    [[Nudge(reason="budget_steps", text="…")], [Nudge(reason="loop", text="…")]],
    ids=["budget", "loop"],
)
def test_a_last_answer_is_marked_at_once(entries: list[Any]) -> None:
    end = decide(run_of(*entries, says(LIE)), LIMITS, 1.0)
    assert isinstance(end, Finished)
    assert "⚠" in end.answer


def test_without_a_step_left_it_is_marked_at_once() -> None:
    end = decide(run_of(says(LIE)), Limits(1, 100.0, 0, Decimal(0)), 1.0)
    assert isinstance(end, Finished)
    assert end.finish_reason == "stop"
    assert "⚠" in end.answer


def test_runs_of_before_the_guard_and_of_a_guard_that_is_off_end_as_they_are() -> None:
    run = run_of(says(LIE))
    run.terms = TERMS.model_copy(update={"claims": False})
    assert decide(run, LIMITS, 1.0) == Finished("stop", LIE)
    run.terms = None
    assert decide(run, LIMITS, 1.0) == Finished("stop", LIE)


@pytest.mark.parametrize(
    ("state", "supported"),
    [(NodeState.DONE, True), (NodeState.FAILED, False), (NodeState.OUTCOME_UNKNOWN, False), (NodeState.DENIED, False)],
)
def test_only_what_ended_well_speaks_for_a_claim(state: NodeState, supported: bool) -> None:
    run = run_of(*ran("r.1.1.0", "note_save", Effect.WRITE, state), says(LIE))
    assert (unfounded(run, LIE, []) == []) is supported


def test_a_subagent_speaks_by_its_deeds() -> None:
    read = run_of(*ran("r.1.1.0", "agent_scout", Effect.WRITE, deeds=()))
    wrote = run_of(*ran("r.1.1.0", "agent_scout", Effect.WRITE, deeds=("note_save",)))
    unknown = run_of(*ran("r.1.1.0", "agent_scout", Effect.WRITE))
    assert [bool(unfounded(run, LIE, [])) for run in (read, wrote, unknown)] == [True, False, False]
    assert effects(wrote) == ("note_save",)


def test_reading_is_no_deed() -> None:
    run = run_of(*ran("r.1.1.0", "note_search", Effect.READ), *ran("r.1.1.1", "find_tools", Effect.READ))
    assert effects(run) == ()
    assert looked_at(run) == {"notes"}
    assert unfounded(run, LIE, []) != []


def test_earlier_runs_speak_for_what_is_told_of_before() -> None:
    ended = RunEnded(state="ended", finish_reason="stop")
    fold = session_of(one=[*ran("one.1.1.0", "note_save", Effect.WRITE), ended], two=[says(LIE)])
    two = fold.run("two")
    before = list(earlier(fold, "two"))
    assert [run.run for run in before] == ["one"]
    assert unfounded(two, LIE, before) != []
    assert unfounded(two, "As I told you, I saved the note yesterday.", before) == []
    assert unfounded(two, "As I told you, I sent the mail yesterday.", before) != []
    assert two.message is not None
    two.message = two.message.model_copy(update={"text": "did you save it?"})
    assert unfounded(two, LIE, before) == []


@pytest.mark.parametrize(
    ("answer", "mark"), [("He guardado la nota.", "Sin confirmar"), ("I've saved the note.", "Not confirmed")]
)
def test_the_mark_is_in_the_language_of_the_answer(answer: str, mark: str) -> None:
    assert mark in marked(answer, claims(answer))


def test_rows_are_rows() -> None:
    assert Row(text="Saved.", lang="en", done=(), expect="flag").flagged
    assert not Row(text="Saved.", lang="en", done=("saved",), expect="ok").flagged
