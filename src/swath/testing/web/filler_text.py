"""Filler text in three languages, with characters that charsets encode differently."""

from dataclasses import dataclass
from functools import lru_cache

from swath.testing.web.seeded_random import SeededRandom

SENTENCES = 211  # per language

_ENGLISH = (
    "the of and a in is that it was for on are as with they be at one have this from had by word but not what all "
    "were we when your can said there use an each which she do how their if will up other about out many then them "
    "these so some her would make like him into time has look two more write go see number no way could people my "
    "than first water been call who oil its now find long down day did get come made may part river mountain paper "
    "letter harvest market winter station bridge garden morning council history engine island village language"
)
_EUROPEAN = (
    "für über schön größer Straße müssen Bücher Öl Mädchen können früh später Käse été où déjà élève garçon français "
    "hôtel forêt naïve tête señor mañana niño corazón también así está qué año pingüino "
    "und der die das nicht mit ist auch nach wie le la les une dans pour avec sur pas plus el los las por con para"
)
_JAPANESE = (
    "日本 東京 京都 大阪 新聞 天気 料理 電車 駅 山 川 海 空 花 雨 雪 春 夏 秋 冬 朝 夜 本 水 火 木 金 土 人 "
    "子供 学校 先生 学生 会社 仕事 時間 今日 明日 昨日 の は が を に で と も から まで です ます した して "
    "いる ある ない という こと もの"
)


@dataclass(frozen=True, slots=True)
class Language:
    tag: str
    words: tuple[str, ...]
    space: str
    stop: str


ENGLISH = Language("en", tuple(_ENGLISH.split()), " ", ". ")
EUROPEAN = Language("de", tuple(_EUROPEAN.split()), " ", ". ")
JAPANESE = Language("ja", tuple(_JAPANESE.split()), "", "。")


@lru_cache(maxsize=64)
def make_sentences(seed: int, language: Language) -> tuple[str, ...]:
    """Return the sentences that the pages of a web consist of."""
    random = SeededRandom(seed, "prose", language.tag)
    sentences = []
    for _ in range(SENTENCES):
        words = [random.pick(language.words) for _ in range(6 + random.below(14))]
        text = language.space.join(words)
        sentences.append(text[0].upper() + text[1:] + language.stop)
    return tuple(sentences)


def pick_paragraph(sentences: tuple[str, ...], random: SeededRandom) -> str:
    start = random.below(SENTENCES)
    return "".join(sentences[start : start + 3 + random.below(6)])


def pick_phrase(language: Language, random: SeededRandom) -> str:
    return language.space.join([random.pick(language.words) for _ in range(3)])
