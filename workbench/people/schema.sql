CREATE TABLE campaign (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT;
-- vacant: people that the item's step still needs, less those who have it on an open page
CREATE TABLE items (
        number INTEGER PRIMARY KEY,
        item_id TEXT NOT NULL UNIQUE,
        place INTEGER NOT NULL UNIQUE,
        answer TEXT NOT NULL,
        step INTEGER NOT NULL DEFAULT 0 CHECK (step >= 0),
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'kept', 'dropped')),
        reason TEXT,
        n_judged INTEGER NOT NULL DEFAULT 0 CHECK (n_judged >= 0),
        n_right INTEGER NOT NULL DEFAULT 0 CHECK (n_right BETWEEN 0 AND n_judged),
        vacant INTEGER NOT NULL CHECK (vacant >= 0)
    ) STRICT;
-- apart from the columns that change, so that these lie close together
CREATE TABLE records (
        item INTEGER PRIMARY KEY REFERENCES items (number),
        record TEXT NOT NULL
    ) STRICT;
CREATE INDEX vacancies ON items (step, place) WHERE vacant > 0;
CREATE TABLE subjects (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        token_sha256 TEXT NOT NULL UNIQUE,
        added REAL NOT NULL
    ) STRICT;
-- a page without a subject was exported, and has not come back
CREATE TABLE pages (
        id INTEGER PRIMARY KEY,
        subject INTEGER REFERENCES subjects (id),
        step INTEGER NOT NULL CHECK (step >= 0),
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'submitted', 'expired')),
        assigned REAL NOT NULL,
        expires REAL NOT NULL,
        submitted REAL,
        assignment TEXT UNIQUE
    ) STRICT;
CREATE UNIQUE INDEX open_pages ON pages (subject) WHERE state = 'open';
CREATE INDEX leases ON pages (expires) WHERE state = 'open';
-- nobody gets an item twice: one row a subject and item, whatever the step
CREATE TABLE assignments (
        page INTEGER NOT NULL REFERENCES pages (id),
        position INTEGER NOT NULL,
        item INTEGER NOT NULL REFERENCES items (number),
        subject INTEGER REFERENCES subjects (id),
        step INTEGER NOT NULL CHECK (step >= 0),
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'finished', 'released')),
        PRIMARY KEY (page, position),
        UNIQUE (page, item),
        UNIQUE (subject, item)
    ) STRICT;
CREATE TABLE answers (
        id INTEGER PRIMARY KEY,
        subject INTEGER NOT NULL REFERENCES subjects (id),
        item INTEGER NOT NULL REFERENCES items (number),
        shown INTEGER NOT NULL CHECK (shown >= 0),
        page INTEGER NOT NULL REFERENCES pages (id),
        step INTEGER NOT NULL CHECK (step >= 0),
        guesses TEXT NOT NULL,
        match TEXT NOT NULL CHECK (match IN ('exact', 'case', 'number', 'spelling', 'no')),
        correct INTEGER NOT NULL CHECK (correct IN (0, 1)),
        counted INTEGER NOT NULL CHECK (counted IN (0, 1)),
        seconds REAL CHECK (seconds >= 0),
        answered REAL NOT NULL,
        UNIQUE (subject, item, shown)
    ) STRICT;
