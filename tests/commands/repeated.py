"""A text that can be told in advance only by what looks back: a word of three random letters,
a point, the same word, an end of line. Of its characters the letters of the first word take
2 bits each, the others none: 0.75 bits per character. Whoever knows where in a line a
character stands, but not the word, needs 1.5; whoever knows the character before, about 2.4."""

import random

LETTERS = "abcd"
CHARACTERS = len(LETTERS) + 2
# Below what is possible without the word, with some distance.
LEARNT = 1.3


def write(folder):
    draw = random.Random(1)
    for name, lines in (("train.txt", 3000), ("test.txt", 300)):
        words = ["".join(draw.choice(LETTERS) for _ in range(3)) for _ in range(lines)]
        (folder / name).write_text("".join(f"{word}.{word}\n" for word in words),
                                   encoding="utf-8")
