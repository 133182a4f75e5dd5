"""Prompts for training the demo drafters: templates times topics, written for this and used for nothing else.

The prompts of workloads/ stay out of it: they are what acceptance is measured on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count

EVALUATED = ("chat", "code", "structured", "summarization", "creative", "chat_pt")
"""The files of workloads/ that drafters are judged by."""

SUBJECTS = (
    "bees", "volcanoes", "the Silk Road", "sourdough bread", "electric cars", "chess openings", "vaccines",
    "the printing press", "jazz music", "black holes", "remote work", "marathon training", "tax returns",
    "the French Revolution", "smartphone batteries", "night trains", "coffee roasting", "public libraries", "wolves",
    "solar panels", "learning a language", "job interviews", "sleep", "glaciers", "bicycle repair", "personal budgets",
    "medieval castles", "the water cycle", "photography", "meditation", "the stock market", "urban gardens", "tea",
    "whales", "rice cooking", "knitting", "the Moon", "earthquakes", "open source software", "camping", "migraine",
    "the Roman army", "recycling", "insulin", "satellite navigation", "parenting teenagers", "cheese", "rainforests",
    "video games", "renting a flat", "dinosaurs", "bridges", "the human heart", "airports", "podcasts", "swimming",
    "wind energy", "dogs", "pensions", "the Great Barrier Reef", "typography", "fermentation", "map making", "robots",
)  # fmt: skip
CHAT = (
    "What should I know about {a}?",
    "Explain {a} to a ten-year-old.",
    "How does {a} compare with {b}?",
    "I know nothing about {a}. Where do I start, and what mistakes should I avoid?",
    "Give me five interesting facts about {a}.",
    "Why do people care so much about {a}? Keep it short.",
    "My friend says that {a} is overrated. What would you answer?",
    "List the pros and cons of {a}.",
    "Can you make a one-week plan for somebody who wants to learn about {a}?",
    "What are the most common questions about {a}, with answers?",
    "How has {a} changed over the last hundred years?",
    "What does {a} have to do with {b}?",
    "hey, quick one: what's the best book or film about {a} and why",
    "I have to give a five minute talk on {a} tomorrow. Help me with an outline.",
    "Write step by step instructions for a beginner about {a}.",
)
CREATIVE = (
    "Write a short story about {a} and {b}.",
    "Write a poem about {a} in four stanzas.",
    "Write a dialogue between two strangers who argue about {a}.",
    "Invent a myth that explains {a}.",
    "Write the opening paragraph of a mystery novel that involves {a}.",
    "Write a funny product review about {a}.",
    "Write a letter from the year 2100 that mentions {a} and {b}.",
    "Describe {a} as if you saw it for the first time.",
)
REWRITE = (
    "Write an e-mail to a colleague about {a}, then rewrite it in a formal tone.",
    'Rewrite this sentence in three ways: "We all think too little about {a}, and too much about {b}."',
    'Correct the grammar: "me and him was talk about {a} yesterday and we doesn\'t agree on nothing about {b}."',
    "Turn this into bullet points: {a} matters for three reasons: it is cheap, close to {b}, and everyone knows it.",
    "Write a press release announcing a museum about {a}.",
    "Write a polite complaint about a course on {a} that was cancelled twice.",
)
LANGUAGES = ("Python", "Python", "Python", "JavaScript", "TypeScript", "Go", "Java", "C++", "Rust", "SQL", "Bash")
TASKS = (
    "reverses a linked list", "checks whether a string is a palindrome", "parses a CSV file and sums one column",
    "finds the two numbers in a list that add up to a target", "computes the n-th Fibonacci number with memoization",
    "merges two sorted lists", "counts the words in a text file", "validates an e-mail address",
    "implements a stack with push, pop and peek", "sorts a list of records by date and then by name",
    "removes duplicates from a list and keeps the order", "downloads a web page and extracts its links",
    "computes the moving average of a series", "converts between Celsius and Fahrenheit",
    "implements binary search", "flattens a nested list", "retries a failing call with exponential backoff",
    "groups transactions by month and totals them", "finds the shortest path in a grid",
    "rotates a matrix by ninety degrees", "keeps the ten most recent log lines", "implements a bank account class",
    "reads settings from environment variables with defaults", "checks a password against a list of rules",
    "generates all permutations of a string", "implements a simple cache with a size limit",
    "calculates the distance between two points on a map", "splits a long text into chunks of at most n characters",
    "finds the longest common prefix of some strings", "computes a running median", "builds a binary tree from a list",
    "schedules meetings without overlaps", "masks all credit card numbers in a text", "plays tic-tac-toe",
)  # fmt: skip
CODE = (
    "Write a {language} function that {task}.",
    "Write a {language} function that {task}. Add comments and an example of its use.",
    "Show me {language} code that {task}, and explain how it works.",
    "Write a {language} program that {task}, with tests.",
    "My {language} code {task}, but it is slow and hard to read. Show me a clean version.",
    "Write a class in {language} that {task}. Handle bad input.",
)
FIRST_NAMES = (
    "Ana",
    "Bruno",
    "Chen",
    "Dora",
    "Emil",
    "Fatima",
    "Georg",
    "Hana",
    "Igor",
    "Julia",
    "Kofi",
    "Lena",
    "Mateo",
)
LAST_NAMES = ("Almeida", "Becker", "Costa", "Dimitrov", "Eriksen", "Fischer", "Gupta", "Hoang", "Ivanova", "Jansen")
CITIES = ("Lisbon", "Graz", "Nairobi", "Osaka", "Recife", "Tallinn", "Oslo", "Porto", "Lyon", "Quito", "Cork", "Split")
GOODS = (
    "desk lamp",
    "office chair",
    "water filter",
    "laptop stand",
    "rain jacket",
    "coffee grinder",
    "bike pump",
    "tent",
)
STRUCTURED = (
    "Extract name, city and age as JSON: {first} {last}, {n} years old, moved from {city} to {city2} in {year}.",
    "Return a JSON array of three fictional customers with the keys id, name, city, email and balance.",
    "Give me a JSON object that describes a {good}: name, price, currency, stock, tags (list), dimensions (object).",
    "Convert to JSON with keys item, quantity, unit_price, total: {n} × {good} at {price} EUR each.",
    "Write a YAML configuration for a service named {word}-api: port {port}, two replicas, environment, probes.",
    "Make a Markdown table of five {good} models with price, weight and rating.",
    "Fill in this form as JSON. Order {port}: {first} {last} from {city} bought {n} {good}s on {year}-03-1{d}.",
    'Answer only with JSON: {{"sentiment": …, "topics": […], "urgent": …}} for this message: "The {good} I ordered '
    "{d} weeks ago never came to {city}. I want my {price} euros back!\"",
    "Turn these notes into JSON with keys attendees, date, decisions, todos: met {first} and {first2} on {year}-0{d}-12"
    " in {city}; we buy {n} {good}s; {first} asks for offers; {first2} books the room.",
    "Write a JSON schema for an order of {good}s with customer, lines, discount and shipping address.",
    "List ten {city} street cafes as CSV with the columns name,street,rating,price_level.",
    "Write the SQL to create tables for customers, {word}s and orders, and insert three rows in each.",
    "Classify each line as BUG, QUESTION or REQUEST, as JSON: 1) the {good} page shows error {port} 2) can I change my "
    "address to {city}? 3) please add a dark mode",
)  # fmt: skip
WORDS = ("ticket", "invoice", "parcel", "booking", "sensor", "recipe", "course", "garden", "player", "report")
PORTUGUESE = (
    "Como faço para tirar a segunda via d{item}?",
    "Preciso renovar {o_item}. Quais documentos eu levo e quanto custa?",
    "Explique em palavras simples o que é {tema}.",
    "Moro em {cidade} e quero saber como funciona {tema}. Pode me ajudar?",
    "Quem tem direito a {tema}? Responda em tópicos.",
    "Escreva uma carta curta à prefeitura de {cidade} pedindo informações sobre {tema}.",
    "Quais são os prazos para {tema}? Perdi {o_item} e não sei o que fazer.",
    "Bom dia! Minha mãe tem {n} anos e precisa de {tema}. Por onde começamos?",
    "Faça uma lista de cinco dicas sobre {tema}.",
    "Qual a diferença entre {tema} e {tema2}?",
)
ITEMS = ("a carteira de identidade", "o título de eleitor", "a certidão de nascimento", "o CPF", 
         "o passaporte", "a carteira de motorista", "o cartão do SUS", "a certidão de casamento")  # fmt: skip
TEMAS = ("a aposentadoria por idade", "o seguro-desemprego", "o Bolsa Família", "a matrícula na escola pública",
         "o imposto de renda", "a coleta seletiva", "o licenciamento do carro", "a vacinação", "o IPTU",
         "a meia-entrada", "o posto de saúde", "o FGTS", "a tarifa social de energia")  # fmt: skip
CIDADES = ("Recife", "Curitiba", "Manaus", "Belo Horizonte", "Salvador", "Goiânia", "Porto Alegre", "Natal", "Belém")
ARTICLE = (
    "Write a long, detailed article about {a} in plain paragraphs.",
    "Write a news report of several paragraphs about {a} and {b}.",
    "Write the minutes of a long meeting about {a} in which four people disagree.",
)
ARTICLE_TOKENS = 320


def _about(templates: tuple[str, ...]) -> Callable[[random.Random], str]:
    def write(rng: random.Random) -> str:
        a, b = rng.sample(SUBJECTS, 2)
        return rng.choice(templates).format(a=a, b=b)

    return write


def _code(rng: random.Random) -> str:
    return rng.choice(CODE).format(language=rng.choice(LANGUAGES), task=rng.choice(TASKS))


def _structured(rng: random.Random) -> str:
    (first, first2), (city, city2) = rng.sample(FIRST_NAMES, 2), rng.sample(CITIES, 2)
    return rng.choice(STRUCTURED).format(
        first=first, first2=first2, last=rng.choice(LAST_NAMES), city=city, city2=city2, good=rng.choice(GOODS),
        word=rng.choice(WORDS), n=rng.randint(2, 90), d=rng.randint(1, 9), year=rng.randint(2009, 2026),
        price=f"{rng.randint(5, 400)}.{rng.randint(0, 9)}0", port=rng.randint(1000, 9999),
    )  # fmt: skip


def _portuguese(rng: random.Random) -> str:
    item, (tema, tema2) = rng.choice(ITEMS), rng.sample(TEMAS, 2)
    return rng.choice(PORTUGUESE).format(
        item=item, o_item=item, tema=tema, tema2=tema2, cidade=rng.choice(CIDADES), n=rng.randint(58, 84)
    )


KINDS: dict[str, tuple[int, Callable[[random.Random], str]]] = {
    "chat": (5, _about(CHAT)),
    "code": (5, _code),
    "structured": (4, _structured),
    "creative": (3, _about(CREATIVE)),
    "portuguese": (3, _portuguese),
    "rewrite": (2, _about(REWRITE)),
    "article": (2, _about(ARTICLE)),
}
"""Kind -> its share, in parts, and who writes one."""


def template_prompts(seed: int = 0) -> Iterator[dict[str, object]]:
    """Workload lines without end, none twice."""
    rng, seen = random.Random(seed), set[str]()
    shares = [share for share, _ in KINDS.values()]
    for number in count():
        kind = rng.choices(list(KINDS), shares)[0]
        while (text := KINDS[kind][1](rng)) in seen:
            continue
        seen.add(text)
        line: dict[str, object] = {"id": f"{kind}-{number}", "category": kind}
        if kind == "article":
            line["max_tokens"] = ARTICLE_TOKENS
        yield {**line, "messages": [{"role": "user", "content": text}]}
