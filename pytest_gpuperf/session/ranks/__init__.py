"""The processes of one launch that run the same tests: what each does, how they meet and what they say.

Messages between them are dictionaries; `data` is the number of bytes that follow one. The place of a test is
its number among the speedup tests, which all ranks have in one order. Rank 0 says:

`welcome`, or `refused` with the reason
    to a rank that connects
`refused`, with the reason or null
    when all have named their tests
`do`, `of`, `seconds`
    what the others do in the test at the place `of`, and for how long rank 0 may say nothing after it:
    `call` (`key`, `as`, `count`, `drop`), `block` (`key`, `calls`, `empty_wait`, `count`, `drop`), `go`
    (`at`), `result` (`count`, `drop`), `pass` (a barrier), `wait`, and `over` (`cause`, `is_skip`); the key
    of the body is 0, and that of a reset the negative one of its call
`measures`, `done`
    at which place it waits until all wait; which test they need not wait for any more
`finishes`, `ended`
    that it writes what it found; its exit status

Each other rank says:

`token`, `rank`, and then `tests`, `where`, `process`
    who it is, the node ids of its tests, and its host and process
`begins`, `here`, `at`
    the place of the test that it has begun, that it has set up, and at the end of whose body it waits
`said`, `of`
    an answer in a test: `done` (`worked`, `inputs`, `compiled`), `ready`, `took` (`took`, `started`,
    `compiled`), `result` (`places`, and its values), `barrier`, and `failed` (`failed`, `kind`)
`setup`, `failed`, `kind`
    how its set-up of a test failed, or skipped it
`leaves`, `ended`
    why it goes on without rank 0; its exit status
"""
