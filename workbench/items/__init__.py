"""Items: a text with one blank, perhaps candidates, one answer; the same for every data set.

`schema` has the item and its checks, `items` the table of items and how users build one, `text` the
sentences and Treebank tokens of a text, `tokens` the tokens of an item, `query` conditions in SQL, `view`
items as HTML, `notes` a reader's tags and notes.
The columns (`schema.ITEM_COLUMNS`) are public; new ones need a default, so that stored items stay readable.
"""
