"""The files of this repository as the checks see them: tracked ones and new ones git does not ignore."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CPP = (".h", ".hpp", ".cpp", ".cc")


def all_files(root=ROOT):
    """Paths relative to root, sorted. Without git (an unpacked archive, a test's folder): every file."""
    got = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True)
    top = subprocess.run(["git", "-C", root, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    if got.returncode == 0 and os.path.realpath(top.stdout.strip()) == os.path.realpath(root):
        names = got.stdout.decode("utf-8", "surrogateescape").split("\0")
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [d for d in folders if d not in (".git", "build", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    # A file that is deleted but not yet committed is still listed by git.
    return sorted(n for n in set(names) if n and os.path.isfile(os.path.join(root, n)))


def read_text(path):
    """Text of a file, or None where it is not text."""
    with open(path, "rb") as f:
        data = f.read()
    if b"\0" in data:
        return None
    return data.decode("utf-8", "replace")


def blank_comments(text, strings=False):
    """C++ text with comments (and with strings: the inside of string literals) turned to blanks.

    Lines and columns stay where they are.
    """
    out, i, n = [], 0, len(text)
    while i < n:
        two = text[i:i + 2]
        if two == "//":
            end = text.find("\n", i)
            end = n if end < 0 else end
        elif two == "/*":
            end = text.find("*/", i + 2)
            end = n if end < 0 else end + 2
        elif text.startswith('R"', i) and (i == 0 or not (text[i - 1].isalnum() or text[i - 1] == "_")):
            open_paren = text.find("(", i)
            close = text.find(")" + text[i + 2:open_paren] + '"', i) if open_paren > 0 else -1
            end = n if close < 0 else close + 1 + (open_paren - i - 2) + 1
            piece = text[i:end]
            out.append("".join(c if c == "\n" else " " for c in piece) if strings else piece)
            i = end
            continue
        elif text[i] == '"' or (text[i] == "'" and not (i > 0 and text[i - 1].isalnum())):
            end = i + 1
            while end < n and text[end] != text[i] and text[end] != "\n":
                end += 2 if text[end] == "\\" else 1
            end = min(end + 1, n)
            piece = text[i:end]
            out.append(piece[0] + " " * (len(piece) - 2) + piece[-1] if strings and len(piece) >= 2 else piece)
            i = end
            continue
        else:
            out.append(text[i])
            i += 1
            continue
        out.append("".join(c if c == "\n" else " " for c in text[i:end]))
        i = end
    return "".join(out)
