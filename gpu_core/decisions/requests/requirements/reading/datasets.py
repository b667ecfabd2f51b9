"""Data sets that people name instead of a number, and how large they are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """How much there is, in one of the units that texts count in."""

    pattern: str
    name: str
    noun: str
    """`images`, `tokens`, `samples` or `seconds`."""
    number: float
    usual_epochs: int = 1
    """Of training from scratch."""
    source: str
    evaluation_number: float | None = None
    """Of its validation or test set, by which models are compared; None: `number` is."""


DATA_SETS = (
    DataSet(
        pattern=r"imagenet-?21k|imagenet-?22k",
        name="ImageNet-21k",
        noun="images",
        number=14_197_122,
        usual_epochs=30,
        source="Ridnik et al. 2021",
    ),
    DataSet(
        pattern=r"imagenet(?:-?1k)?",
        name="ImageNet-1k",
        noun="images",
        number=1_281_167,
        usual_epochs=90,
        source="Russakovsky et al. 2015; 90 epochs: He et al. 2016",
        evaluation_number=50_000,
    ),
    DataSet(
        pattern=r"laion-?400m",
        name="LAION-400M",
        noun="images",
        number=413e6,
        source="Schuhmann et al. 2021",
    ),
    DataSet(
        pattern=r"laion-?5b",
        name="LAION-5B",
        noun="images",
        number=5.85e9,
        source="Schuhmann et al. 2022",
    ),
    DataSet(
        pattern=r"(?:ms-?)?coco",
        name="COCO 2017",
        noun="images",
        number=118_287,
        usual_epochs=100,
        source="Lin et al. 2014; cocodataset.org",
        evaluation_number=5_000,
    ),
    DataSet(
        pattern=r"cifar-?(?:10|100)",
        name="CIFAR",
        noun="images",
        number=50_000,
        usual_epochs=200,
        source="Krizhevsky 2009; 200 epochs: He et al. 2016",
        evaluation_number=10_000,
    ),
    DataSet(
        pattern=r"mnist",
        name="MNIST",
        noun="images",
        number=60_000,
        usual_epochs=10,
        source="LeCun et al. 1998",
        evaluation_number=10_000,
    ),
    DataSet(
        pattern=r"librispeech",
        name="LibriSpeech",
        noun="seconds",
        number=960 * 3600,
        usual_epochs=1,
        source="Panayotov et al. 2015: 960 hours",
    ),
    DataSet(
        pattern=r"alpaca",
        name="Alpaca",
        noun="samples",
        number=52_002,
        usual_epochs=3,
        source="Taori et al. 2023",
    ),
    DataSet(
        pattern=r"wikitext-?103",
        name="WikiText-103",
        noun="tokens",
        number=103_227_021,
        source="Merity et al. 2016, table 1",
    ),
    DataSet(
        pattern=r"openwebtext",
        name="OpenWebText",
        noun="tokens",
        number=9e9,
        source="Gokaslan and Cohen 2019; 9.0B GPT-2 tokens",
    ),
    DataSet(
        pattern=r"squad(?: ?v?1(?:\.1)?)?",
        name="SQuAD 1.1",
        noun="samples",
        number=87_599,
        usual_epochs=2,
        source="Rajpurkar et al. 2016; the questions of its training set",
        evaluation_number=10_570,
    ),
    DataSet(
        pattern=r"gsm-?8k",
        name="GSM8K",
        noun="samples",
        number=7_473,
        usual_epochs=3,
        source="Cobbe et al. 2021; its training set",
        evaluation_number=1_319,
    ),
    DataSet(
        pattern=r"mmlu",
        name="MMLU",
        noun="samples",
        number=14_079,
        source="Hendrycks et al. 2021; the questions of its test set",
    ),
    DataSet(
        pattern=r"mnli|multinli",
        name="MNLI",
        noun="samples",
        number=392_702,
        usual_epochs=3,
        source="Williams et al. 2018; its training set",
        evaluation_number=9_815,
    ),
    DataSet(
        pattern=r"sst-?2",
        name="SST-2",
        noun="samples",
        number=67_349,
        usual_epochs=3,
        source="Socher et al. 2013; its training set in GLUE",
        evaluation_number=872,
    ),
    DataSet(
        pattern=r"imdb",
        name="IMDb reviews",
        noun="samples",
        number=25_000,
        usual_epochs=3,
        source="Maas et al. 2011; its training set",
        evaluation_number=25_000,
    ),
    DataSet(
        pattern=r"c4",
        name="C4",
        noun="tokens",
        number=156e9,
        source="Dodge et al. 2021, table 1: C4.EN",
    ),
    DataSet(
        pattern=r"red-?pajama(?:-?1t)?",
        name="RedPajama",
        noun="tokens",
        number=1.2e12,
        source="Together 2023",
    ),
    DataSet(
        pattern=r"fine-?web",
        name="FineWeb",
        noun="tokens",
        number=15e12,
        source="Penedo et al. 2024",
    ),
    DataSet(
        pattern=r"slim-?pajama",
        name="SlimPajama",
        noun="tokens",
        number=627e9,
        source="Soboleva et al. 2023",
    ),
)
