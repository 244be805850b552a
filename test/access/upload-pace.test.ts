// Uploads that wait or rest, over a response that starts its timeout where uWebSockets.js does.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { UploadPace } from '../../src/access/upload-pace.ts';

/** The library closes what brought nothing for so long, give or take 2 s. */
const TIMEOUT_S = 10;

class Upload {
  isOver = false;
  /** Seconds in which the client has to send something; Infinity: it has all the time there is. */
  leftS = TIMEOUT_S;
  pauses = 0;

  pause(): this {
    this.leftS = Infinity;
    this.pauses++;
    return this;
  }

  resume(): this {
    this.leftS = TIMEOUT_S;
    return this;
  }

  /** Enough bytes come, whatever was paused. */
  bytes(): void {
    this.leftS = TIMEOUT_S;
  }
}

interface Rig {
  readonly res: Upload;
  readonly pace: UploadPace;
  /** The seconds after which the connection is closed, if that is within the given ones. */
  readonly closedWithin: (seconds: number) => number | undefined;
}

function upload(t: TestContext): Rig {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const res = new Upload();
  const pace = new UploadPace(res, res);
  const closedWithin = (seconds: number): number | undefined => {
    for (let second = 1; second <= seconds; second++) {
      t.mock.timers.tick(1000);
      if (--res.leftS === 0) return second;
    }
    return undefined;
  };
  return { res, pace, closedWithin };
}

test('a client that may not send has all the time there is, also when bytes of it came after the pause', (t) => {
  const { res, pace, closedWithin } = upload(t);
  pace.pause();
  assert.equal(closedWithin(3600), undefined);
  res.bytes();
  pace.came();
  assert.equal(closedWithin(3600), undefined);
  pace.resume();
  assert.equal(res.leftS, TIMEOUT_S);
});

test('a client that may send may rest for five minutes after each piece, and after each wait', (t) => {
  const { res, pace, closedWithin } = upload(t);
  for (let pieces = 0; pieces < 3; pieces++) {
    assert.equal(closedWithin(290), undefined);
    res.bytes();
    pace.came();
  }
  pace.pause();
  assert.equal(closedWithin(290), undefined);
  pace.resume();
  const closedS = closedWithin(600);
  assert(closedS !== undefined && closedS >= 300 && closedS <= 315, `closed after ${closedS} s`);
});

test('bytes of a client that may send pause nothing', (t) => {
  const { res, pace } = upload(t);
  res.bytes();
  pace.came();
  pace.pause();
  pace.resume();
  pace.came();
  assert.equal(res.pauses, 1);
});

test('a response that is over is not touched', (t) => {
  const { res, pace, closedWithin } = upload(t);
  res.isOver = true;
  pace.over();
  pace.pause();
  pace.came();
  closedWithin(TIMEOUT_S);
  assert.equal(res.pauses, 0);
});
