"""Grading, held against hand-graded replies, and against the graders one would write first, which must fail them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from lib.answer_text import canonical, numbers
from lib.battery import INSTRUCTION, Grade, Question, _sentences, chat_prompt, grade

CAPITAL = Question("capital", "What is the capital of France?", ("Paris",))
LEGS = Question("legs", "How many legs does a spider have?", ("8",))
MINUTES = Question("minutes", "How many minutes are in an hour?", ("60",))
DOZEN = Question("dozen", "How many eggs are in three cartons of 4?", ("12", "a dozen"))
PRODUCT = Question("product", "What is 7 times 8?", ("56",))
METRES = Question("metres", "How many metres are in a kilometre?", ("1000",))
METAL = Question("metal", "Which metal has the chemical symbol Fe?", ("iron",))
SYMBOL = Question("symbol", "What is the chemical symbol for helium?", ("He",))
BOILS = Question("boils", "At how many degrees Celsius does water boil?", ("100",))
COLD = Question("cold", "At which temperature do Celsius and Fahrenheit agree?", ("-40",))
VITAMIN = Question("vitamin", "Which vitamin do carrots provide?", ("Vitamin A",))
RIVER = Question("river", "Which river flows through Cairo?", ("the Nile", "Nile River"))
DUTCH = Question("dutch", "Where is Amsterdam?", ("the Netherlands", "Holland"))
TOWER = Question("tower", "Where is the Eiffel Tower?", ("Paris",))
CITY = Question("city", "Which capital lies on the Potomac?", ("Washington D.C.", "Washington"))
BRAZIL = Question("brazil", "What is the capital of Brazil?", ("Brasília",))
POPULATION = Question("population", "How many people live in the city?", ("2.5 million",))
PLANET = Question("planet", "Which planet is the largest?", ("Jupiter",))

RIGHT = [
    (CAPITAL, "Paris"),
    (CAPITAL, " paris.\n\nQuestion: What is the capital of Spain?\nAnswer: Madrid"),
    (CAPITAL, "The capital of France is **Paris**.<|im_end|>"),
    (CAPITAL, "Answer: Paris"),
    (CAPITAL, "A: Paris"),
    (CAPITAL, "Sure! The answer is Paris."),
    (CAPITAL, "What is the capital of France? Paris."),
    (CAPITAL, "What is the capital of France?\nParis"),
    (CAPITAL, "PARIS, France"),
    (CAPITAL, "It is not London but Paris"),
    (CAPITAL, "not London, Paris"),
    (CAPITAL, "It is none other than Paris"),
    (CAPITAL, "Paris is not only the capital but the largest city"),
    (CAPITAL, "I think it is Paris."),
    (TOWER, "Paris, France"),
    (TOWER, "It's Paris' tower"),
    (LEGS, "8"),
    (LEGS, "8."),
    (LEGS, "Eight legs."),
    (LEGS, "A spider has eight (8) legs"),
    (LEGS, "not 7 but 8"),
    (LEGS, "Spiders do not have 6 legs, they have 8."),
    (MINUTES, "There are 60 minutes in 1 hour."),
    (MINUTES, "One hour is sixty minutes"),
    (DOZEN, "a dozen"),
    (DOZEN, "Twelve, i.e. a dozen"),
    (DOZEN, "3 cartons of 4 are 12 eggs"),
    (PRODUCT, "7 × 8 = 56"),
    (PRODUCT, "fifty-six"),
    (METRES, "1,000"),
    (METRES, "1\u202f000 m"),
    (METRES, "1000.0"),
    (METRES, "one thousand metres"),
    (METAL, "Iron"),
    (SYMBOL, "He"),
    (BOILS, "100°C"),
    (BOILS, "$100$ ℃"),
    (COLD, "minus 40"),
    (COLD, "−40 degrees"),
    (VITAMIN, "vitamin A"),
    (VITAMIN, "Vitamin A."),
    (RIVER, "Nile"),
    (RIVER, "The River Nile"),
    (DUTCH, "Holland, or the Netherlands"),
    (CITY, "Washington, D.C."),
    (BRAZIL, "Brasilia"),
    (POPULATION, "about 2,500,000"),
    (PLANET, "Jupiter is the largest planet in our solar system, with a mass of 1.9 × 10²⁷ kg"),
]

WRONG = [
    (CAPITAL, "London"),
    (CAPITAL, "It is not Paris."),
    (CAPITAL, "The capital isn't Paris"),
    (CAPITAL, "Paris is not the capital of France"),
    (CAPITAL, "Anything other than Paris"),
    (CAPITAL, "Parisian"),
    (CAPITAL, "London. Paris is smaller."),
    (LEGS, "6"),
    (LEGS, "80"),
    (LEGS, "8.5"),
    (LEGS, "18"),
    (LEGS, "not 8"),
    (LEGS, "It does not have 8 legs."),
    (PRODUCT, "8"),
    (METAL, "environment"),
    (METAL, "Copper"),
    (SYMBOL, "Helium-4 atoms"),
    (COLD, "40"),
    (VITAMIN, "Vitamin C"),
    (RIVER, "the Tiber"),
    (POPULATION, "2.5"),
    (PLANET, "The largest is Jupiter's moon Europa"),
    (MINUTES, "One-word answer: 10"),
]

UNPARSEABLE = [
    (CAPITAL, ""),
    (CAPITAL, " \n\t"),
    (CAPITAL, "<|im_end|>"),
    (CAPITAL, "</s><pad>"),
    (CAPITAL, "!!!!!!!!"),
    (CAPITAL, "What is the capital of France?"),
    (CAPITAL, "The capital of France is"),
    (CAPITAL, "France"),
    (CAPITAL, "the the the the"),
    (CAPITAL, "Paris or London"),
    (CAPITAL, "Paris/London"),
    (CAPITAL, "Paris and Lyon"),
    (CAPITAL, "London, Paris, Berlin"),
    (CAPITAL, "Paris, London, Berlin"),
    (CAPITAL, "London, Paris"),
    (CAPITAL, "- Paris\n- London"),
    (CAPITAL, "1. Paris\n2. London"),
    (CAPITAL, "Maybe Paris"),
    (CAPITAL, "It could be Paris."),
    (CAPITAL, "I don't know."),
    (CAPITAL, "I'm not sure, Paris?"),
    (CAPITAL, "Is it Paris?"),
    (CAPITAL, "I'm sorry, but I can't answer that."),
    (LEGS, "6 or 8"),
    (LEGS, "6, 8"),
    (LEGS, "6–8"),
    (LEGS, "between 6 and 10"),
    (LEGS, "1 or 8"),
    (LEGS, "many"),
    (LEGS, "not 6"),
    (BOILS, "100 °C, which is 212 °F"),
    (METRES, "10³"),
    (PRODUCT, "7 times 8 is"),
    (PRODUCT, 'One word: "n"'),
    (CAPITAL, "One word or one number, nothing else."),
]


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [(q, reply, Grade.RIGHT) for q, reply in RIGHT]
    + [(q, reply, Grade.WRONG) for q, reply in WRONG]
    + [(q, reply, Grade.UNPARSEABLE) for q, reply in UNPARSEABLE],
)
def test_grades_against_grading_by_hand(question: Question, reply: str, expected: Grade) -> None:
    assert grade(reply, question) is expected


@pytest.mark.parametrize(
    "naive",
    [
        lambda reply, q: any(a.casefold() in reply.casefold() for a in q.answers),  # any substring
        lambda reply, q: any(a.casefold() in reply.casefold().split() for a in q.answers),  # any word, anywhere
        lambda reply, q: reply.strip().casefold() in {a.casefold() for a in q.answers},  # exact match
    ],
    ids=["substring", "word", "exact"],
)
def test_grading_by_hand_rejects_naive_graders(naive: Callable[[str, Question], bool]) -> None:
    graded = [(q, r, True) for q, r in RIGHT] + [(q, r, False) for q, r in WRONG + UNPARSEABLE]
    assert sum(naive(reply, question) is not right for question, reply, right in graded) >= 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Approx. **1,400,000** km²", "approx 1400000 km2"),
        ("three hundred and sixty-five", "365"),
        ("two thousand five", "2005"),
        ("hundred thousand", "100000"),
        ("four five", "4 5"),
        ("100 and 200", "100 and 200"),
        ("2.5 million", "2500000"),
        ("1,2,3", "1 , 2 , 3"),
        ("12345,678", "12345 , 678"),
        ("U.S.A. isn't", "usa is not"),
        ("-40 5-7 covid-19", "-40 5 7 covid 19"),
        ("9 minus 4", "9 minus 4"),
        ("minus forty", "-40"),
        ("10⁸ H₂O", "10 8 h2o"),
        ("½", "1 2"),
        ("São Paulo’s １２", "sao paulo s 12"),
        ("007 1.50 -0", "7 1.5 0"),
        ("… !!! —", ""),
    ],
)
def test_canonical_text_against_table(text: str, expected: str) -> None:
    assert canonical(text) == expected


def test_canonical_text_is_a_fixed_point() -> None:
    texts = [reply for _, reply in RIGHT + WRONG + UNPARSEABLE]
    assert all(canonical(canonical(text)) == canonical(text) for text in texts)


def test_numbers_of_every_spelling_up_to_999() -> None:
    units = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
    )
    units += "seventeen eighteen nineteen".split()
    tens = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()

    def spelled(n: int) -> str:
        if n < 20:
            return units[n]
        if n < 100:
            return tens[n // 10] + (f"-{units[n % 10]}" if n % 10 else "")
        return f"{units[n // 100]} hundred" + (f" and {spelled(n % 100)}" if n % 100 else "")

    assert all(numbers(canonical(spelled(n))) == {str(n)} for n in range(1000))


@pytest.mark.parametrize(
    ("text", "answers", "message"),
    [
        ("Is Paris the capital?", ("Paris",), "contains its own answer"),
        ("What are eight and eight?", ("16", "8"), "contains its own answer"),
        ("Why?", (), "at least one answer"),
        ("Why?", ("!",), "no word and no number"),
        (" ", ("yes",), "a text"),
    ],
)
def test_question_rejects_bad_input(text: str, answers: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Question("q", text, answers)


def test_question_may_hide_its_answer_inside_a_word() -> None:
    question = Question("q", "Which metal is best for the environment in 1250?", ("iron", "12"))
    assert grade("environment", question) is Grade.UNPARSEABLE


def word_tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    words = ["[UNK]", "<s>", "<user>", "<bot>", *f"{INSTRUCTION} {CAPITAL.text} Question: Answer:".split()]
    core = Tokenizer(WordLevel({word: n for n, word in enumerate(dict.fromkeys(words))}, words[0]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token=words[0], bos_token=words[1])
    tokenizer.chat_template = template
    return tokenizer


def test_chat_prompt_through_the_template_with_one_first_token() -> None:
    template = (
        "<s> {% for m in messages %}<user> {{ m.content }} {% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
    )
    tokenizer = word_tokenizer(template)
    ids = chat_prompt(tokenizer, CAPITAL)
    assert ids.ndim == 1
    assert tokenizer.decode(ids.tolist()) == f"<s> <user> {INSTRUCTION} {CAPITAL.text} <bot>"
    doubled = tokenizer(tokenizer.decode(ids.tolist()))["input_ids"]  # what adding special tokens again would do
    assert doubled[:2] == [1, 1] and ids[:2].tolist() != [1, 1]


def test_chat_prompt_without_a_template_is_plain() -> None:
    tokenizer = word_tokenizer(None)
    assert tokenizer.decode(chat_prompt(tokenizer, CAPITAL).tolist()) == f"<s> Question: {CAPITAL.text} Answer:"


def test_a_hundred_multiplies_only_what_is_below_it() -> None:
    """The wrong variant reads "one hundred five hundred" as 10,500."""
    assert numbers(canonical("one hundred five hundred")) == {"105", "100"}
    assert numbers(canonical("one thousand hundred")) == {"1000", "100"}


def test_an_abbreviation_ends_no_sentence() -> None:
    assert list(_sentences("It takes approx. 60 minutes. Done.")) == ["It takes approx. 60 minutes. ", "Done.", ""]
