"""What a causal model says of words, calculated plainly, and what tests of such models share.

One word at a time, nothing shared, all logits.
"""

# ruff: noqa: RUF001 - typographic apostrophes are meant

from unicodedata import category

import numpy as np
import torch
import transformers
from tiny_models import texts

from workbench.items.items import items_from_text
from workbench.models.pretrained.causal import CausalLM

WITHIN = "'’ʼ-‐‑_\u00ad\u200c\u200d"


class Plain:
    def __init__(self, folder, length=10**6):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self.length = length
        letter = self.tokenizer("a", add_special_tokens=False)["input_ids"][0]
        special = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        special.add(self.tokenizer.eos_token_id)  # with GPT-2 both are one
        over = []
        for index in range(len(self.tokenizer)):
            first = self.tokenizer.decode([letter, index], clean_up_tokenization_spaces=False)[1:2]
            name = self.tokenizer.convert_ids_to_tokens(index)
            part = first == "�" and not name.startswith("ï¿½")  # GPT-2 has that character itself too
            within = not first or first.isalnum() or first in WITHIN or category(first)[0] == "M"
            over.append(index in special or not (within or part or index == self.tokenizer.unk_token_id))
        self.over = torch.tensor(over)

    def cut(self, context, rest):
        """Cut as lm-evaluation-harness does."""
        left = context.rstrip()
        whole = self.tokenizer(left + context[len(left) :] + rest)["input_ids"]
        before = self.tokenizer(left)["input_ids"]
        if not left:
            before = [self.tokenizer.bos_token_id]
            whole = before + self.tokenizer(context + rest, add_special_tokens=False)["input_ids"]
        return whole, len(before)

    @torch.inference_mode()
    def says(self, context, rest):
        """Return the log-probability of a text, that of the word's end after it, and if it is greedy."""
        whole, n = self.cut(context, rest)
        target = torch.tensor(whole[n:])
        seen = whole[-self.length :]
        at = self.logits(seen, len(target) + 1)
        end = float(at[-1][self.over].logsumexp(0))
        if len(seen) < len(whole):  # the harness does not see the last one, and one more on the left
            at = torch.cat([self.logits(whole[:-1][-self.length :], len(target)), at[-1:]])
        greedy = bool((at[:-1].argmax(-1) == target).all())
        return float(at[range(len(target)), target].sum()), end, greedy

    def logits(self, ids, n):
        """Return the log-probabilities after the last n sub-tokens."""
        return self.model(torch.tensor([ids])).logits[0, -n:].double().log_softmax(-1)

    def words(self, context, words):
        """Return the log-probability of each word and its end."""
        return np.array([sum(self.says(context, word)[:2]) for word in words])

    @torch.inference_mode()
    def writes(self, context):
        """Return the word that the model writes."""
        whole, n = self.cut(context, "x")
        ids = whole[:n]
        for _ in range(12):
            token = int(self.model(torch.tensor([ids])).logits[0, -1].argmax())
            if len(ids) > n and self.over[token]:
                break
            ids = [*ids, token]
        start = len(self.tokenizer.decode(ids[:n], clean_up_tokenization_spaces=False))
        return self.tokenizer.decode(ids, clean_up_tokenization_spaces=False)[start:].strip()


PASSAGES = sorted((row for row in texts() if len(row) < 420), key=len)
TOKENS = [row for row in PASSAGES if " ." in row][:4]
RUNNING = [row for row in PASSAGES if " ." not in row][:2]
WORDS = sorted({word for row in PASSAGES[::3] for word in row.split()})[::24]
ITEMS = items_from_text([*TOKENS, *RUNNING, "Colonel", 'He said " well'])


def model(folder, **options):
    return CausalLM(folder, **{"device": "cpu", **options})


def before(item):
    return item.text[: item.answer_span[0]]
