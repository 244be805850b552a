// Uploads that wait, over a response that starts its timeout where uWebSockets.js does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UploadPace } from '../../src/http/routes/admin/backup.ts';

class Upload {
  /** The client has ten seconds to send something. */
  isTimed = true;
  pauses = 0;

  pause(): this {
    this.isTimed = false;
    this.pauses++;
    return this;
  }

  resume(): this {
    this.isTimed = true;
    return this;
  }

  /** Enough bytes come, whatever was paused. */
  bytes(): void {
    this.isTimed = true;
  }
}

function upload(isOver = false): { readonly res: Upload; readonly flow: UploadPace } {
  const res = new Upload();
  const flow = new UploadPace(res as unknown as ConstructorParameters<typeof UploadPace>[0], { isOver });
  return { res, flow };
}

test('a client that may not send has all the time there is, also when bytes of it came after the pause', () => {
  const { res, flow } = upload();
  flow.pause();
  assert.equal(res.isTimed, false);
  res.bytes();
  flow.came();
  assert.equal(res.isTimed, false);
  flow.resume();
  assert.equal(res.isTimed, true);
});

test('bytes of a client that may send pause nothing', () => {
  const { res, flow } = upload();
  res.bytes();
  flow.came();
  flow.pause();
  flow.resume();
  flow.came();
  assert.equal(res.pauses, 1);
});

test('a response that is over is not touched', () => {
  const { res, flow } = upload(true);
  flow.pause();
  flow.came();
  assert.equal(res.pauses, 0);
});
