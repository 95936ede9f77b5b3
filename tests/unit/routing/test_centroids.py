"""Layer 2: what is asked of the encoder, what is kept on disk, and how its threshold comes about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.routing import calibrate, store
from coordinator.routing.centroids import Centroids, Examples, background, combined
from coordinator.routing.lexical import LexicalIndex
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


def test_clusters_stand_for_their_rows() -> None:
    rows = normalise(np.concatenate([np.eye(4, dtype=np.float32)[[i] * 10] for i in range(4)]))
    centres = clusters(rows, 4)
    assert (rows @ centres.T).max(axis=1).min() > 0.99
    assert clusters(rows[:3], 4) is not None
    assert len(clusters(rows[:3], 4)) == 3


def test_cut_is_where_the_two_kinds_part() -> None:
    assert 4 <= calibrate.cut(np.linspace(5, 9, 100), np.linspace(0, 4, 100)) <= 5.2


def test_cut_gives_up_little_where_the_kinds_mingle_but_never_accepts_half_of_what_it_should_not() -> None:
    inside = np.linspace(5, 9, 100)
    mingled = calibrate.cut(inside, np.concatenate([np.linspace(0, 5, 60), np.linspace(5, 8.9, 40)]), 0.9)
    assert (inside < mingled).mean() == 0.03
    assert calibrate.cut(inside, np.linspace(4, 8.9, 101)) == pytest.approx(6.45)


def test_the_threshold_tells_strangers_from_examples() -> None:
    encoder = WordEncoder()
    pairs = [(g.name, s) for g in catalogue().groups for sentences in g.examples.values() for s in sentences]
    examples = Examples.of(pairs)
    vectors, unrelated = encoder.encode([s for _, s in pairs]), encoder.encode(list(background()))
    threshold = calibrate.threshold(combined, examples, vectors, background(), unrelated)
    scorer = combined(examples, vectors, unrelated)
    assert scorer([s for _, s in pairs], vectors).max(axis=1).min() > threshold


def test_half_precision_changes_no_answer() -> None:
    rows, classes = cloud(3)
    stored = store.Stored(Centroids.fit(rows, classes, 6, cloud(4)[0]).with_threshold(1.25), rows[:2])
    nothing = np.zeros((len(rows), 6))
    before, after = stored.model.scores(rows, nothing), stored.rounded().model.scores(rows, nothing)
    assert stored.rounded().model.threshold == 1.25
    assert np.abs(before - after).max() < 0.05
    assert (before.argmax(1) == after.argmax(1)).all()


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
