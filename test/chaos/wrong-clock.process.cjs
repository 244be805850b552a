// Loaded by a node before everything else, in every thread: its wall clock is wrong by what a file says, from the
// moment when the file changes. Timers go on as before, as they do when a clock is set.
const { readFileSync } = require('node:fs');

const FILE = process.env.WRONG_CLOCK ?? '';
/** Steps take effect this late at most. */
const LOOK_MS = 100;

const right = Date.now.bind(Date);
let wrongByMs = 0;

function look() {
  try {
    wrongByMs = Number(readFileSync(FILE, 'utf8')) || 0;
  } catch {
    wrongByMs = 0;
  }
}

look();
setInterval(look, LOOK_MS).unref();
Date.now = () => right() + wrongByMs;
