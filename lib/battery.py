"""A battery of short factual questions: how one is put to a model, and how a reply is graded.

The rules of grading, in order. They are strict in the model's disfavour: a reply counts only if it commits itself.

1. What is graded is the reply's first statement: its first sentence or line that says something. Special tokens,
   labels ("Answer:"), sentences of nothing but function words and words the model was shown, and sentences that ask
   are passed over. No statement left: unparseable (empty, punctuation, the question repeated).
2. Texts are compared in canonical form (lib.answer_text): whole words, numbers as numbers, never a part of a word.
3. A statement that leaves its own answer open ("probably", "I do not know") is unparseable; "I think" does not.
4. An answer that is denied ("not Paris", "Paris is not …") does not count; nothing else named makes it wrong.
5. Where an accepted answer is a number, the numbers of the statement are its candidates, except those of the question
   and a 1 that counts one of the question's nouns ("60 minutes in 1 hour"). Exactly one candidate is right or wrong;
   several are unparseable unless all are accepted, and so is none.
6. Where it is not, an accepted answer makes it right, unless it is one of several: joined by "or", "/" or "and" with
   something else, after another item, or before two. "Paris, London" passes, since it reads like "Paris, France",
   and so does a longer name around an accepted one ("William Shakespeare", but also "carbon dioxide" for "carbon").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lib.answer_text import NUMBER, canonical, is_number, numbers

# The instruction comes before the question, so that all chat prompts of a battery begin alike and a cache can share it.
INSTRUCTION = "Answer with one word or one number, nothing else."

FUNCTION_WORDS = frozenset(
    "a an the is are was were be been being of in on at to from by for with into than and or as it its this that these "
    "those there here he she they them i we you his her their our my your which who whom whose what when where why how "
    "many much not does do did has have had can will would answer question correct called named name also so then just "
    "only very sure certainly course yes no ok okay well hello hi please thank thanks let me us help about approx "
    "approximately around roughly nearly exactly think believe , / st nd rd th am im s user assistant system".split()
)
_ABBREVIATIONS = frozenset("st mt dr mr mrs ms prof approx ca vs ft jr sr".split())
_SPECIAL = re.compile(r"</?\|?\w+\|?>|\[(?:pad|unk|cls|sep|eos|bos)\]", re.IGNORECASE)
_LABEL = re.compile(
    r"^\W*(?:(?:the |my |final |short |correct )*(?:question|q|answer|a|response|output|result|assistant)\s*:\s*)+",
    re.I,
)
_LISTED = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+\S", re.MULTILINE)
_SENTENCE_END = re.compile(r"(\S*?)([.!?。！？]+)[\"'”’)\]*]*(?:\s+|$)")
_OPEN = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|presumably|might|may be|could be|likely|unsure|uncertain|unknown|guess|"
    r"depends|sorry|unable|as an ai|(?:i|we) can not|(?:i|we) do not (?:\w+ )?(?:know|have)|"
    r"not (?:\w+ )?(?:sure|certain|known|clear))\b"
)
_TARGET = rf"(?:@|{NUMBER})(?!\S)"
# up to three words, as in "not in the @"; "not x but @" and "not only @" deny nothing
_BETWEEN = r"(?: (?!(?:but|only|just|until|before|because|,)(?!\S))[^\s@]+){0,3}"
_DENIED = re.compile(
    r"(?<!\S)(?:"
    rf"(?:not|never|nor|neither|isnt|wasnt|arent){_BETWEEN} {_TARGET}"
    rf"|(?:no|non|without|except|unlike|(?<!none )other than|rather than|instead of)(?: (?:a|an|the))? {_TARGET}"
    rf"|{_TARGET} (?:is|was|are|were|do|does|did|has|have|can|could|will|would) not(?! (?:only|just)(?!\S))(?!\S)"
    r")"
)


@dataclass(frozen=True)
class Question:
    """id: unique in its battery. text: as the model sees it. answers: all accepted ones; English numerals need no twin.

    Raises ValueError without an answer, for one with nothing to compare, and for one that the text already contains
    as whole words: a model that repeats the question would have given it.
    """

    id: str
    text: str
    answers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not (self.id and canonical(self.text) and self.answers):
            raise ValueError(f"question {self.id!r} needs an id, a text and at least one answer")
        for answer in self.answers:
            if not canonical(answer):
                raise ValueError(f"question {self.id!r}: the answer {answer!r} has no word and no number")
            if _pattern((answer,)).search(canonical(self.text)):
                raise ValueError(f"question {self.id!r} contains its own answer {answer!r}")


class Grade(StrEnum):
    """What a reply is worth; unparseable is a class of its own, neither right nor wrong."""

    RIGHT = "right"
    WRONG = "wrong"
    UNPARSEABLE = "unparseable"


def grade(reply: str, question: Question) -> Grade:
    """Grade a decoded reply, special tokens allowed, by the rules above."""
    if len(_LISTED.findall(reply)) > 1:
        return Grade.UNPARSEABLE
    statement = next(_statements(reply, question), None)
    asked = _asked(question)
    if statement is None or any(not _has_words(asked, m[0]) for m in _OPEN.finditer(statement)):
        return Grade.UNPARSEABLE
    asserted = _DENIED.sub(" ", statement)
    denied = "@" in statement.split() and "@" not in asserted.split()
    if _is_numeric(question):
        return _grade_number(asserted, question, denied)
    return _grade_words(asserted, asked)


def chat_prompt(tokenizer: PreTrainedTokenizerBase, question: Question) -> Tensor:
    """The question's ids (T,), int64: one user turn of the tokenizer's chat template, or a plain "Question … Answer:".

    The template writes every special token itself; only the plain form gets those that the tokenizer adds.
    """
    if getattr(tokenizer, "chat_template", None):
        turn = [{"role": "user", "content": f"{INSTRUCTION}\n{question.text}"}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        encoded = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    else:
        encoded = tokenizer(f"Question: {question.text}\nAnswer:", return_tensors="pt")
    ids: Tensor = encoded["input_ids"][0]
    return ids


def _statements(reply: str, question: Question) -> Iterator[str]:
    """The sentences that say something, in canonical form, accepted answers replaced by "@"."""
    asked, accepted = _asked(question), _pattern(question.answers)
    for line in _SPECIAL.sub("\n", reply).splitlines():
        for sentence in _sentences(_LABEL.sub("", line)):
            if sentence.rstrip(" \t\"'”’)]*").endswith(("?", "？")):
                continue
            marked = accepted.sub("@", canonical(sentence))
            says_number = bool(numbers(marked)) and _is_numeric(question)
            if "@" in marked.split() or says_number or _new_words(marked.split(), asked):
                yield marked


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(line):
        word = re.split(r"[^\w]", end[1])[-1].casefold()
        abbreviated = end[2] == "." and (word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()))
        if not abbreviated:
            yield line[start : end.end()]
            start = end.end()
    yield line[start:]


def _grade_number(asserted: str, question: Question, denied: bool) -> Grade:
    words, known, asked = asserted.split(), numbers(canonical(question.text)), _asked(question)
    rivals = {
        word
        for word, after in pairwise([*words, ""])
        if is_number(word) and word not in known and not _counts_a_noun(word, after, asked)
    }
    if "@" in words:
        return Grade.UNPARSEABLE if rivals else Grade.RIGHT
    one_wrong = len(rivals) == 1 or (len(words) == 1 and is_number(words[0]))
    return Grade.WRONG if one_wrong or (denied and not rivals) else Grade.UNPARSEABLE


def _counts_a_noun(number: str, after: str, asked: str) -> bool:
    return number == "1" and (after == "of" or (after not in FUNCTION_WORDS and _has_words(asked, after)))


def _grade_words(asserted: str, asked: str) -> Grade:
    if "@" not in asserted.split():
        return Grade.WRONG
    alternatives = re.split(r"(?<!\S)(?:or|/)(?!\S)", asserted)
    neighbours = re.findall(r"@ and (\S+)", asserted) + re.findall(r"(\S+) and @(?!\S)", asserted)
    if not all("@" in part.split() for part in alternatives) or _new_words(neighbours, asked):
        return Grade.UNPARSEABLE
    items = [part.split() for part in re.split(r"(?<!\S),(?!\S)", asserted)]
    first = next(n for n, item in enumerate(items) if "@" in item)
    before, after = (sum(_is_rival(item, asked) for item in part) for part in (items[:first], items[first:]))
    return Grade.UNPARSEABLE if before or after > 1 else Grade.RIGHT


def _is_rival(item: list[str], asked: str) -> bool:
    """Whether an item of a list could be an answer by itself: one or two words, none the question's or a function's."""
    return 1 <= len(item) <= 2 and "@" not in item and len(_new_words(item, asked)) == len(item)


def _asked(question: Question) -> str:
    """What the model was shown, canonical: a reply that repeats the instruction says nothing either."""
    return canonical(f"{question.text}\n{INSTRUCTION}")


def _is_numeric(question: Question) -> bool:
    return any(is_number(canonical(answer)) for answer in question.answers)


def _pattern(answers: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the answers as whole canonical tokens, longest first, whatever articles or commas stand inside."""
    forms = {_without_article(canonical(answer)) for answer in answers}
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    joint = r"(?: ,)?(?: (?:a|an|the))? "
    bodies = (joint.join(re.escape(word) for word in form.split() if word != ",") for form in ordered)
    return re.compile(rf"(?<!\S)(?:{'|'.join(bodies)})(?! s \S)(?!\S)")  # "Jupiter's Europa" does not name Jupiter


def _without_article(form: str) -> str:
    return re.sub(r"^(?:a|an|the) (?=\S)", "", form)


def _new_words(words: list[str], asked: str) -> list[str]:
    """Those that are neither the question's, nor function words, nor numbers."""
    return [w for w in words if w not in FUNCTION_WORDS and not is_number(w) and not _has_words(asked, w)]


def _has_words(text: str, words: str) -> bool:
    return bool(words) and f" {words} " in f" {text} "
