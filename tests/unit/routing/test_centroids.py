"""Layer 2: what is asked of the encoder, what is kept on disk, and how its threshold comes about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.routing import calibrate, centroids, store
from coordinator.routing.centroids import Centroids, Examples, Training, background, combined
from coordinator.routing.lexical import LexicalIndex, WordVectors
from coordinator.routing.linear import Whitening, clusters, logistic, means
from coordinator.routing.router import Router
from coordinator.routing.text import tokens
from shared.contract import Catalogue
from shared.encoder import normalise
from tests.unit.routing.support import WordEncoder, catalogue, large

QUERY = "sube el volumen del jazz en el altavoz"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npz"))


def test_one_request_for_all_groups_and_never_again_for_the_same_sentences(tmp_path: Path) -> None:
    first, second = WordEncoder(), WordEncoder()
    router = Router(catalogue(), first, tmp_path)
    router.prepare()
    router.prepare()
    assert len(first.calls) == 1
    before = router.route(QUERY)
    again = Router(catalogue(), second, tmp_path).route(QUERY)
    assert second.calls == [[QUERY]]
    assert again == before


def test_other_sentences_or_another_encoder_are_built_anew(tmp_path: Path) -> None:
    Router(catalogue(), WordEncoder(), tmp_path).prepare()
    changed = catalogue()
    group = changed.groups[0].model_copy(update={"examples": {"en": ("a new sentence", "and one more")}})
    other = WordEncoder()
    Router(Catalogue(tools=changed.tools, groups=(group, *changed.groups[1:])), other, tmp_path).prepare()
    renamed = WordEncoder("other")
    Router(catalogue(), renamed, tmp_path).prepare()
    assert (len(other.calls), len(renamed.calls), len(files(tmp_path))) == (1, 1, 3)


def test_old_files_do_not_pile_up(tmp_path: Path) -> None:
    for number in range(12):
        Router(catalogue(), WordEncoder(f"encoder {number}"), tmp_path).prepare()
    assert len(files(tmp_path)) == 9
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("damage", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_a_damaged_file_is_built_anew(tmp_path: Path, damage: bytes) -> None:
    Router(catalogue(), WordEncoder(), tmp_path).prepare()
    files(tmp_path)[0].write_bytes(damage)
    encoder = WordEncoder()
    Router(catalogue(), encoder, tmp_path).prepare()
    assert len(encoder.calls) == 1
    assert files(tmp_path)[0].stat().st_size > 1000


def test_a_folder_that_cannot_be_written_costs_only_the_file(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert Router(catalogue(), WordEncoder(), blocked).route(QUERY).groups == ("music",)


def test_groups_without_examples_are_known_by_their_tools() -> None:
    encoder = WordEncoder()
    Router(large(300), encoder).prepare()
    assert "create invoice 0: Create the invoice of project 0" in encoder.calls[0]
    assert len(encoder.calls[0]) == len(set(encoder.calls[0]))


def test_the_background_is_bilingual_and_has_no_repeats() -> None:
    sentences = background()
    assert len(sentences) == len(set(sentences)) >= 200
    assert "do ghosts exist" in sentences
    assert "existen los fantasmas" in sentences


def cloud(seed: int, count: int = 6, each: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Points around `count` middles that differ along few axes but are scattered along one strong other."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(count, 24))
    middles[:, 0] = 0
    rows = np.repeat(middles, each, axis=0) + 0.3 * rng.normal(size=(count * each, 24))
    rows[:, 0] += 6 * rng.normal(size=count * each)
    return normalise(rows), np.repeat(np.arange(count), each)


def test_whitening_damps_what_classes_do_not_differ_by() -> None:
    train, classes = cloud(1)
    test, truth = cloud(1)[0][::-1], classes[::-1]
    whitening = Whitening.fit(train, classes, 6)
    assert whitening.axes.shape[0] == whitening.gains.shape[0] <= 6
    assert abs(whitening.axes[0, 0]) > 0.9
    assert whitening.gains[0] < 0.7
    plain = (test @ means(train, classes, 6).T).argmax(1)
    after = (whitening.apply(test) @ means(whitening.apply(train), classes, 6).T).argmax(1)
    assert (after == truth).sum() > (plain == truth).sum()


def test_the_head_separates_what_it_learnt_and_weighs_small_classes_up() -> None:
    rng = np.random.default_rng(2)
    middles = 3 * np.eye(8)
    big, small = rng.normal(middles[0], size=(60, 8)), rng.normal(middles[1], size=(4, 8))
    rows, classes = normalise(np.concatenate([big, small])), np.array([0] * 60 + [1] * 4)
    answers = (rows @ logistic(rows, classes, 2).T).argmax(1)
    assert (answers == classes).mean() > 0.95


def test_rows_count_by_their_shares_and_a_row_without_a_share_not_at_all() -> None:
    rng = np.random.default_rng(5)
    rows, classes = normalise(rng.normal(size=(30, 8))), np.arange(30) % 3
    wrong, shares = (classes + 1) % 3, np.repeat(np.array([1, 0], np.float32), 30)
    both = logistic(np.concatenate([rows, rows]), np.concatenate([classes, wrong]), 3, shares)
    assert np.abs(both - logistic(rows, classes, 3)).max() < 0.01


def test_clusters_stand_for_their_rows() -> None:
    rows = normalise(np.concatenate([np.eye(4, dtype=np.float32)[[i] * 10] for i in range(4)]))
    centres = clusters(rows, 4)
    assert (rows @ centres.T).max(axis=1).min() > 0.99
    assert clusters(rows[:3], 4) is not None
    assert len(clusters(rows[:3], 4)) == 3


NONE = np.zeros(0)


def test_cut_is_where_the_two_kinds_part() -> None:
    assert 4 <= calibrate.cut(np.linspace(5, 9, 100), NONE, np.linspace(0, 4, 100)) <= 5.2
    assert 4 <= calibrate.cut(np.linspace(5, 9, 100), np.linspace(0, 4, 100), NONE) <= 5.2


def test_cut_gives_up_little_where_the_kinds_mingle_but_never_accepts_half_of_what_it_should_not() -> None:
    inside = np.linspace(5, 9, 100)
    mingled = calibrate.cut(inside, np.concatenate([np.linspace(0, 5, 60), np.linspace(5, 8.9, 40)]), NONE, 0.9)
    assert (inside < mingled).mean() == 0.02
    assert calibrate.cut(inside, np.linspace(4, 8.9, 101), NONE) == pytest.approx(6.5, abs=0.1)


SCORES = st.lists(st.floats(-20, 20), max_size=30).map(np.array)


@pytest.mark.property
@given(SCORES.filter(len), SCORES, SCORES)
def test_a_cut_accepts_nearly_all_that_it_should_or_refuses_half_of_what_it_should(
    inside: np.ndarray, near: np.ndarray, far: np.ndarray
) -> None:
    found = calibrate.cut(inside, near, far)
    kinds = [kind for kind in (near, far) if len(kind)]
    assert min(scores.min() for scores in (inside, *kinds)) <= found <= max(scores.max() for scores in (inside, *kinds))
    lost = (inside < found).mean()
    assert lost <= 0.02 + 1 / len(inside) or found in np.concatenate(kinds) or found in inside
    if lost > 0.02 + 1 / len(inside):
        below = np.unique(np.concatenate([inside, *kinds]))
        before = below[below < found].max()
        assert np.mean([(kind < before).mean() for kind in kinds]) < 0.5


def test_near_misses_and_strangers_weigh_the_same_in_the_cut_however_many_there_are() -> None:
    inside, near, far = np.linspace(5, 9, 100), np.linspace(3, 7, 40), np.linspace(0, 5, 30)
    assert calibrate.cut(inside, np.repeat(near, 50), far) == calibrate.cut(inside, near, far)
    assert calibrate.cut(inside, NONE, NONE) == 5.0


def training(pairs: list[tuple[str, str]]) -> Training:
    examples = Examples.of(pairs)
    texts = Training.texts(examples)
    return Training.of(examples, dict(zip(texts, WordEncoder().encode(texts), strict=True)))


def pairs() -> list[tuple[str, str]]:
    return [(g.name, s) for g in catalogue().groups for sentences in g.examples.values() for s in sentences]


def test_the_threshold_tells_strangers_from_examples() -> None:
    learnt = training(pairs())
    threshold = calibrate.threshold(combined, learnt)
    scorer = combined(learnt)
    assert scorer(learnt.examples.sentences, learnt.own.meant).max(axis=1).min() > threshold
    assert np.median(scorer(learnt.strangers, learnt.unrelated.meant).max(axis=1)) < threshold


@pytest.mark.parametrize("count", [1, 5])
def test_classes_of_one_sentence_have_a_threshold_too(count: int) -> None:
    single = list({label: (label, sentence) for label, sentence in pairs()}.values())[:count]
    learnt = training(single)
    threshold = calibrate.threshold(combined, learnt)
    scores = combined(learnt)(learnt.examples.sentences, learnt.own.meant)
    assert np.isfinite(threshold)
    assert scores.argmax(axis=1).tolist() == list(range(len(single)))


def test_examples_of_a_class_that_no_other_fold_knows_are_not_held_against_the_threshold() -> None:
    several = [(label, sentence) for label, sentence in pairs() if label != "music"]
    alone = training([*several, ("music", "play some soft jazz")])
    seen: list[tuple[str, ...]] = []

    def fit(part: Training) -> centroids.Scorer:
        labels = part.examples.labels
        return lambda sentences, _asked: np.array(
            [[9.0 if s != "play some soft jazz" else -9.0] * len(labels) for s in sentences]
        ).reshape(-1, len(labels))

    def watched(part: Training) -> centroids.Scorer:
        seen.append(part.examples.labels)
        return fit(part)

    calibrate.threshold(watched, alone)
    assert any("music" not in labels for labels in seen)
    accepted = training(several)
    assert calibrate.threshold(fit, alone) == calibrate.threshold(fit, accepted) == 9.0


def test_a_part_of_the_training_keeps_sentences_vectors_and_names_together() -> None:
    whole = training(pairs())
    chosen = whole.examples.classes != 0
    part = whole.where(chosen, np.arange(len(whole.strangers)) < 10)
    assert part.examples.labels == whole.examples.labels[1:]
    assert part.strangers == whole.strangers[:10]
    encoder = WordEncoder()
    for rows, texts in (
        (part.own, part.examples.sentences),
        (part.names, part.examples.names),
        (part.unrelated, part.strangers),
    ):
        assert np.array_equal(rows.meant, encoder.encode(list(texts)))
        assert np.array_equal(rows.spoken, whole.words.rows(texts))


NAMED = {
    "buy_ticket": ("two seats for saturday", "i need to get on that train"),
    "openWindow": ("some fresh air would be nice", "let the breeze in"),
    "find-recipe": ("what can i cook with rice", "something with leeks for dinner"),
}


def test_names_of_classes_count_as_examples_when_they_fit_theirs() -> None:
    def answers(labels: dict[str, str]) -> list[str]:
        learnt = training([(labels[name], sentence) for name, sentences in NAMED.items() for sentence in sentences])
        asked = ["ticket buy", "window open", "recipe find"]
        scores = combined(learnt)(asked, WordEncoder().encode(asked))
        back = {label: name for name, label in labels.items()}
        return [back[learnt.examples.labels[at]] for at in scores.argmax(axis=1)]

    assert Examples.of([(name, "") for name in NAMED]).names == ("buy ticket", "open window", "find recipe")
    assert answers({name: name for name in NAMED}) == list(NAMED)
    misleading = dict(zip(NAMED, [*list(NAMED)[1:], next(iter(NAMED))], strict=True))
    learnt = training([(misleading[name], sentence) for name, sentences in NAMED.items() for sentence in sentences])
    scores = combined(learnt)(learnt.examples.sentences, learnt.own.meant)
    assert (scores.argmax(axis=1) == learnt.examples.classes).all()


def test_what_is_kept_changes_no_answer() -> None:
    learnt = training(pairs())
    stored = store.Stored(Centroids.fit(learnt).with_threshold(1.25), learnt.own.meant[:2])
    before = stored.model.scores(learnt.own.meant, learnt.own.spoken)
    after = stored.rounded().model.scores(learnt.own.meant, learnt.own.spoken)
    assert stored.rounded().model.threshold == 1.25
    assert np.abs(before - after).max() < 0.05
    assert (before.argmax(1) == after.argmax(1)).all()


def test_word_vectors_bring_like_words_near_and_shorten_what_they_do_not_know() -> None:
    words = WordVectors(["guarda la receta", "pon música", "what will the weather be"])
    saved, played, inflected, foreign = words.rows(["guarda la receta", "pon música", "guardame recetas", "xyz qqq"])
    assert np.linalg.norm(saved) == pytest.approx(1, abs=0.2), "but for places that features share"
    assert saved @ inflected > 0.3 > abs(saved @ played)
    assert np.linalg.norm(inflected) < np.linalg.norm(saved)
    assert not foreign.any()
    assert words.rows([]).shape == (0, len(saved))
    assert not words.row([]).any()


def test_the_lexical_index_scores_in_zero_to_one_and_knows_its_own_sentence() -> None:
    index = LexicalIndex(["guarda la receta", "pon música", "what will the weather be"], [0, 1, 2], 4)
    scores = index.scores(tokens("guarda la receta"))
    assert scores[0] == pytest.approx(1.0)
    assert scores[3] == 0.0
    assert index.scores(tokens("guardame las recetas")).argmax() == 0
    assert index.scores([]).tolist() == [0, 0, 0, 0]


def test_by_words_ignores_n_grams_of_known_words() -> None:
    sentences, classes = ["export the invoice", "import the invoices"], [0, 1]
    assert LexicalIndex(sentences, classes, 2, by_words=True).scores(["exporting"])[0] > 0
    whole = LexicalIndex(sentences, classes, 2).scores(["export"])
    words = LexicalIndex(sentences, classes, 2, by_words=True).scores(["export"])
    assert words[1] == 0.0 < whole[1]
