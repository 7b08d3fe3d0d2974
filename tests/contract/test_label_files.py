"""The shipped ImageNet-1k label files: names in two languages and the business groups."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from torchvision.models import ResNet50_Weights

LABEL_FOLDER = Path(__file__).parents[2] / "model_repository" / "resnet50_postprocess" / "1"
CLASS_COUNT = 1000
LANGUAGES = ("en", "zh")
ANCHOR_SPACING = 20

# torchvision's name, our name, and why ours differs.
QUALIFIED_NAMES = {
    134: ("crane bird", "crane (bird)", "shares its noun with 517"),
    264: ("Cardigan", "Cardigan (corgi)", "equals 474, the garment, when case is ignored"),
    517: ("crane", "crane (machine)", "shares its noun with 134"),
    639: ("maillot tank suit", "maillot (tank suit)", "shares its noun with 638"),
}

# Written from the English names. A name dropped, added or moved by 20 ids breaks at least one.
CHINESE_ANCHORS = {
    0: "丁鲷", 1: "金鱼", 9: "鸵鸟", 18: "喜鹊", 22: "白头海雕", 30: "牛蛙", 39: "绿鬣蜥",
    48: "科莫多巨蜥", 51: "三角龙", 63: "印度眼镜蛇", 71: "蝎子", 79: "蜈蚣", 84: "孔雀",
    94: "蜂鸟", 100: "黑天鹅", 107: "水母", 113: "蜗牛", 121: "帝王蟹", 130: "火烈鸟",
    134: "鹤", 144: "鹈鹕", 151: "吉娃娃", 162: "比格犬", 171: "意大利灵缇", 187: "约克夏梗",
    199: "苏格兰梗", 207: "金毛寻回犬", 219: "可卡犬", 235: "德国牧羊犬", 244: "藏獒",
    254: "巴哥犬", 259: "博美犬", 264: "卡迪根威尔士柯基犬", 277: "赤狐", 281: "虎斑猫",
    292: "老虎", 296: "北极熊", 301: "瓢虫", 309: "蜜蜂", 319: "蜻蜓", 327: "海星", 337: "河狸",
    340: "斑马", 354: "单峰骆驼", 360: "水獭", 367: "黑猩猩", 372: "狒狒", 386: "非洲象",
    388: "大熊猫", 398: "算盘", 404: "客机", 413: "突击步枪", 420: "班卓琴", 437: "灯塔",
    444: "双人自行车", 454: "书店", 466: "高速列车", 474: "开襟毛衣", 487: "手机", 497: "教堂",
    508: "电脑键盘", 517: "起重机", 527: "台式电脑", 532: "餐桌", 545: "电风扇", 555: "消防车",
    562: "喷泉", 574: "高尔夫球", 589: "吹风机", 604: "沙漏", 610: "T恤", 621: "割草机",
    629: "口红", 638: "连体紧身衣", 639: "连体泳衣", 651: "微波炉", 657: "导弹", 668: "清真寺",
    673: "鼠标", 681: "笔记本电脑", 698: "宫殿", 701: "降落伞", 717: "皮卡", 722: "乒乓球",
    734: "警用囚车", 744: "抛射体", 752: "球拍", 760: "冰箱", 779: "校车", 784: "螺丝刀",
    795: "滑雪板", 805: "足球", 812: "航天飞机", 817: "跑车", 829: "有轨电车", 833: "潜艇",
    845: "注射器", 849: "茶壶", 859: "烤面包机", 866: "拖拉机", 879: "雨伞", 889: "小提琴",
    895: "军用飞机", 897: "洗衣机", 909: "炒锅", 920: "交通信号灯", 928: "冰淇淋", 937: "西兰花",
    949: "草莓", 954: "香蕉", 963: "披萨", 967: "意式浓缩咖啡", 970: "高山", 980: "火山",
    985: "雏菊", 987: "玉米", 997: "牛肝菌", 999: "卫生纸",
}  # fmt: skip

GROUP_OF_CLASS = {
    1: "fish", 2: "shark_ray", 22: "bird", 30: "amphibian", 63: "reptile", 75: "spider",
    100: "bird", 121: "crustacean", 134: "bird", 148: "marine_mammal", 151: "dog", 207: "dog",
    264: "dog", 268: "dog", 269: "wild_canine", 281: "cat", 292: "wild_cat", 296: "bear",
    309: "insect", 340: "hoofed_animal", 367: "primate", 386: "elephant", 388: "bear",
    402: "musical_instrument", 404: "aircraft", 407: "emergency_vehicle", 408: "special_vehicle",
    441: "kitchenware", 466: "train", 474: "clothing", 510: "ship_boat", 532: "furniture",
    620: "computer", 651: "home_appliance", 657: "weapon", 671: "bicycle_motorcycle",
    744: "weapon", 770: "footwear", 779: "bus", 805: "ball_sports", 817: "car",
    837: "eyewear", 847: "military_vehicle", 851: "electronics", 867: "truck", 895: "aircraft",
    937: "vegetable", 949: "fruit", 963: "food_dish", 967: "drink", 980: "landscape",
    985: "flower", 992: "mushroom", 497: "building",
}  # fmt: skip

# An animal, a machine or a thing that merely shares a word with a group.
CLASSES_OUTSIDE_THE_GROUP = [
    (276, "wild_canine"),  # hyena
    (282, "wild_cat"),  # tiger cat, a domestic pattern
    (387, "bear"),  # lesser panda
    (408, "amphibian"),  # amphibious vehicle
    (517, "bird"),  # crane, the machine
    (542, "musical_instrument"),  # drumstick
    (815, "spider"),  # spider web
    (908, "aircraft"),  # wing
    (70, "spider"),  # harvestman, an arachnid that is no spider
]


@pytest.fixture(scope="module")
def torchvision_names() -> list[str]:
    names: list[str] = ResNet50_Weights.IMAGENET1K_V2.meta["categories"]
    return names


@pytest.fixture(scope="module")
def groups() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((LABEL_FOLDER / "groups.json").read_text("utf-8"))
    return loaded


def read_names(language: str) -> list[str]:
    names: list[str] = json.loads((LABEL_FOLDER / f"labels_{language}.json").read_text("utf-8"))
    return names


def repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(map(str.casefold, names)).items() if count > 1]


@pytest.mark.parametrize("name", ["labels_en.json", "labels_zh.json", "groups.json"])
def test_a_file_is_readable_utf8_without_a_mark_and_ends_with_a_newline(name: str) -> None:
    text = (LABEL_FOLDER / name).read_bytes().decode("utf-8")
    assert not text.startswith("\ufeff")
    assert text.endswith("\n")
    assert "\\u" not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_label_stands_on_each_line(language: str) -> None:
    lines = (LABEL_FOLDER / f"labels_{language}.json").read_text("utf-8").splitlines()
    assert len(lines) == CLASS_COUNT + len("[]")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_names_every_class_once(language: str) -> None:
    names = read_names(language)
    assert len(names) == CLASS_COUNT
    assert all(isinstance(name, str) and name and name == name.strip() for name in names)
    assert repeated(names) == []


def test_english_names_are_torchvisions_but_for_the_qualified_ones(
    torchvision_names: list[str],
) -> None:
    differing = {
        class_id: (theirs, ours)
        for class_id, (theirs, ours) in enumerate(
            zip(torchvision_names, read_names("en"), strict=True)
        )
        if theirs != ours
    }
    assert differing == {
        class_id: (theirs, ours) for class_id, (theirs, ours, _why) in QUALIFIED_NAMES.items()
    }


def test_every_chinese_name_is_translated() -> None:
    untranslated = [name for name in read_names("zh") if not re.search("[\u4e00-\u9fff]", name)]
    assert untranslated == []


def test_latin_letters_stay_only_where_chinese_writes_them() -> None:
    mixed = {name for name in read_names("zh") if re.search("[A-Za-z]", name)}
    assert mixed == {"CD播放机", "iPod播放器", "T恤", "福特T型车"}


@pytest.mark.parametrize(("class_id", "name"), CHINESE_ANCHORS.items())
def test_a_chinese_name_stands_at_its_class_id(class_id: int, name: str) -> None:
    assert read_names("zh")[class_id] == name


def test_the_chinese_anchors_leave_no_gap() -> None:
    blocks = {class_id // ANCHOR_SPACING for class_id in CHINESE_ANCHORS}
    assert blocks == set(range(CLASS_COUNT // ANCHOR_SPACING))


def test_groups_are_disjoint(groups: dict[str, Any]) -> None:
    counts = Counter(class_id for group in groups.values() for class_id in group["class_ids"])
    assert [class_id for class_id, count in counts.items() if count > 1] == []


def test_class_ids_of_a_group_are_sorted_and_in_range(groups: dict[str, Any]) -> None:
    for key, group in groups.items():
        class_ids = group["class_ids"]
        assert class_ids, key
        assert class_ids == sorted(set(class_ids)), key
        assert set(class_ids) <= set(range(CLASS_COUNT)), key


def test_a_group_has_a_label_in_every_language(groups: dict[str, Any]) -> None:
    for key, group in groups.items():
        assert sorted(group["labels"]) == sorted(LANGUAGES), key
        assert all(label and label == label.strip() for label in group["labels"].values()), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_group_label_means_no_other_group_and_no_class_outside_it(
    groups: dict[str, Any], language: str
) -> None:
    ids_by_name = {name.casefold(): i for i, name in enumerate(read_names(language))}
    assert repeated([group["labels"][language] for group in groups.values()]) == []
    for key, group in groups.items():
        namesake = ids_by_name.get(group["labels"][language].casefold())
        assert namesake is None or namesake in group["class_ids"], key


@pytest.mark.parametrize(("class_id", "key"), GROUP_OF_CLASS.items())
def test_a_class_is_in_its_group(groups: dict[str, Any], class_id: int, key: str) -> None:
    assert class_id in groups[key]["class_ids"]


@pytest.mark.parametrize(("class_id", "key"), CLASSES_OUTSIDE_THE_GROUP)
def test_a_namesake_stays_outside_the_group(
    groups: dict[str, Any], class_id: int, key: str
) -> None:
    assert class_id not in groups[key]["class_ids"]


def test_the_dog_group_is_exactly_the_domestic_breeds(groups: dict[str, Any]) -> None:
    assert groups["dog"]["class_ids"] == list(range(151, 269))
    assert groups["dog"]["labels"] == {"en": "dog", "zh": "狗"}
