"""Data sets that people name instead of a number, and how large they are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The size of a data set, in one of the units that texts count in."""

    pattern: str
    name: str
    noun: str
    """`images`, `tokens`, `words`, `samples` or `seconds`."""
    number: float
    """Of its training set, where it has one."""
    source: str
    evaluation_number: float | None = None
    """Of its validation or test set, by which models are compared; None: `number` is."""
    usual_epochs: int = 1
    """Of training from scratch."""


def _of(
    noun: str,
    pattern: str,
    name: str,
    number: float,
    source: str,
    evaluation: float | None = None,
    epochs: int = 1,
) -> DataSet:
    return DataSet(
        pattern=pattern,
        name=name,
        noun=noun,
        number=number,
        source=source,
        evaluation_number=evaluation,
        usual_epochs=epochs,
    )


_HOUR_S = 3600
_GLUE = "Wang et al. 2019, GLUE, table 1"

# A longer name stands before a shorter one that it holds.
DATA_SETS = (
    _of("images", r"imagenet-?2[12]k", "ImageNet-21k", 14_197_122, "Ridnik et al. 2021", epochs=30),
    _of("images", r"tiny-? ?imagenet(?:-?200)?", "Tiny ImageNet", 100_000,
        "Le and Yang 2015", 10_000, 90),
    _of("images", r"imagenet(?:-?1k)?", "ImageNet-1k", 1_281_167,
        "Russakovsky et al. 2015; 90 epochs: He et al. 2016", 50_000, 90),
    _of("images", r"laion-?400m", "LAION-400M", 413e6, "Schuhmann et al. 2021"),
    _of("images", r"laion-?5b", "LAION-5B", 5.85e9, "Schuhmann et al. 2022"),
    _of("images", r"cc-?12m|conceptual 12m", "CC12M", 12_423_374, "Changpinyo et al. 2021"),
    _of("images", r"cc-?3m|conceptual captions", "CC3M", 3_318_333, "Sharma et al. 2018", 15_840),
    _of("images", r"(?:ms-?)?coco(?:-?2017)?", "COCO 2017", 118_287,
        "Lin et al. 2014; cocodataset.org", 5_000, 100),
    _of("images", r"ade-?20k", "ADE20K", 20_210, "Zhou et al. 2017", 2_000, 100),
    _of("images", r"cityscapes", "Cityscapes", 2_975, "Cordts et al. 2016", 500, 100),
    _of("images", r"places-?365", "Places365", 1_803_460, "Zhou et al. 2018", 36_500, 90),
    _of("images", r"cifar-?(?:10|100)", "CIFAR", 50_000,
        "Krizhevsky 2009; 200 epochs: He et al. 2016", 10_000, 200),
    _of("images", r"fashion-? ?mnist", "Fashion-MNIST", 60_000, "Xiao et al. 2017", 10_000, 10),
    _of("images", r"mnist", "MNIST", 60_000, "LeCun et al. 1998", 10_000, 10),
    _of("images", r"svhn", "SVHN", 73_257, "Netzer et al. 2011", 26_032, 100),
    _of("images", r"food-?101", "Food-101", 75_750, "Bossard et al. 2014", 25_250, 30),
    _of("images", r"celeb-?a", "CelebA", 202_599, "Liu et al. 2015"),
    _of("images", r"ffhq", "FFHQ", 70_000, "Karras et al. 2019"),
    _of("images", r"flickr-?30k", "Flickr30k", 31_783, "Young et al. 2014"),
    _of("seconds", r"libri-?light", "Libri-Light", 60_000 * _HOUR_S, "Kahn et al. 2020"),
    _of("seconds", r"libri-?speech", "LibriSpeech", 960 * _HOUR_S, "Panayotov et al. 2015"),
    _of("seconds", r"giga-?speech", "GigaSpeech", 10_000 * _HOUR_S, "Chen et al. 2021"),
    _of("seconds", r"ted-?lium(?:[ -]?3)?", "TED-LIUM 3", 452 * _HOUR_S, "Hernandez et al. 2018"),
    _of("seconds", r"lj-?speech", "LJ Speech", 24 * _HOUR_S, "Ito and Johnson 2017"),
    _of("samples", r"alpaca", "Alpaca", 52_002, "Taori et al. 2023", epochs=3),
    _of("samples", r"dolly(?:-?15k)?", "Dolly", 15_011, "Conover et al. 2023", epochs=3),
    _of("samples", r"samsum", "SAMSum", 14_732, "Gliwa et al. 2019", 819, 3),
    _of("samples", r"xsum", "XSum", 204_045, "Narayan et al. 2018", 11_334, 3),
    _of("samples", r"cnn ?[/-]? ?(?:and )?(?:daily ?mail|dm)", "CNN/Daily Mail", 287_226,
        "See et al. 2017", 11_490, 3),
    _of("samples", r"squad(?: ?v?1(?:\.1)?)?", "SQuAD 1.1", 87_599, "Rajpurkar et al. 2016",
        10_570, 2),
    _of("samples", r"natural questions", "Natural Questions", 307_373, "Kwiatkowski et al. 2019",
        7_830, 2),
    _of("samples", r"gsm-?8k", "GSM8K", 7_473, "Cobbe et al. 2021", 1_319, 3),
    _of("samples", r"mmlu", "MMLU", 14_079, "Hendrycks et al. 2021; questions of its test set"),
    _of("samples", r"hella-?swag", "HellaSwag", 39_905, "Zellers et al. 2019", 10_042, 3),
    _of("samples", r"wino-?grande", "WinoGrande", 40_398, "Sakaguchi et al. 2020", 1_267, 3),
    _of("samples", r"bool-?q", "BoolQ", 9_427, "Clark et al. 2019", 3_270, 3),
    _of("samples", r"truthful-?qa", "TruthfulQA", 817, "Lin et al. 2022"),
    _of("samples", r"human-?eval", "HumanEval", 164, "Chen et al. 2021; its problems"),
    _of("samples", r"mnli|multinli", "MNLI", 392_702, "Williams et al. 2018", 9_815, 3),
    _of("samples", r"qnli", "QNLI", 104_743, _GLUE, 5_463, 3),
    _of("samples", r"qqp", "QQP", 363_846, _GLUE, 40_430, 3),
    _of("samples", r"sst-?2", "SST-2", 67_349, "Socher et al. 2013; in GLUE", 872, 3),
    _of("samples", r"imdb", "IMDb reviews", 25_000, "Maas et al. 2011", 25_000, 3),
    _of("samples", r"ag[ -]?news", "AG News", 120_000, "Zhang et al. 2015", 7_600, 3),
    _of("words", r"books?-?corpus", "BookCorpus", 984_846_357, "Zhu et al. 2015, table 2"),
    _of("tokens", r"wikitext-?103", "WikiText-103", 103_227_021, "Merity et al. 2016, table 1"),
    _of("tokens", r"wikitext-?2", "WikiText-2", 2_088_628, "Merity et al. 2016, table 1"),
    _of("tokens", r"openwebtext", "OpenWebText", 9e9, "Gokaslan and Cohen 2019; GPT-2's tokens"),
    _of("tokens", r"the pile(?! of)", "the Pile", 300e9, "Biderman et al. 2023, Pythia, section 2"),
    _of("tokens", r"c4", "C4", 156e9, "Dodge et al. 2021, table 1: C4.EN"),
    _of("tokens", r"red-?pajama(?:-?1t)?", "RedPajama", 1.2e12, "Together 2023"),
    _of("tokens", r"slim-?pajama", "SlimPajama", 627e9, "Soboleva et al. 2023"),
    _of("tokens", r"fine-?web", "FineWeb", 15e12, "Penedo et al. 2024"),
    _of("tokens", r"refined-?web", "RefinedWeb", 600e9, "Penedo et al. 2023; its public part"),
    _of("tokens", r"starcoder-?data", "StarCoderData", 250e9, "Li et al. 2023"),
    _of("tokens", r"dolma", "Dolma", 3e12, "Soldaini et al. 2024"),
)  # fmt: skip

WITHOUT_SIZE = (
    r"arc[- ](?:easy|challenge|c|e)|mbpp|drop dataset|trivia-?qa|hotpot-?qa|ms-? ?marco|superglue"
    r"|(?:super-?)?glue(?= (?:benchmark|tasks?|data\w*)|$)|wmt-?\d\d|europarl|opus-?\d+"
    r"|flores(?:-?\d+)?|ultrachat|share-?gpt|open-?orca|oasst\d?|open-?assistant|tiny-?stories"
    r"|tiny-?shakespeare|lambada|penn tree-?bank|ptb|yelp|20 newsgroups|amazon reviews"
    r"|the stack(?: v2)?|proof-?pile|mc4|oscar|common ?crawl|wikipedia|common ?voice|vox-?populi"
    r"|fleurs|vox-?celeb|audio-?set|esc-?50|speech commands|kitti|nuscenes|lvis|objects-?365"
    r"|open ?images|pascal(?: voc)?|kinetics(?:-?\d+)?|ucf-?101|lsun|oxford pets|flowers-?102"
    r"|caltech-?\d+|inaturalist|vqa(?:-?v2)?|textvqa|doc-?vqa|laion(?:-aesthetics?|-2b)?|datacomp"
)
"""Data sets of several parts and releases: a name alone says no number."""
