// A writer's bytes must not run in a browser: every answer that has a stored content type says so, in every mode.
import assert from 'node:assert/strict';
import { test as plainTest } from 'node:test';
import { type Danger, dangerOf } from '../../src/access/stored-type.ts';
import { normalizeContentType } from '../../src/protocol/media-type.ts';
import { type Answer, serverSuite } from '../support/suite.ts';

const TYPES: readonly (readonly [type: string, danger: Danger])[] = [
  ['text/plain', 'inert'],
  ['Text/Plain; Charset=UTF-8', 'inert'],
  ['application/json', 'inert'],
  ['application/geo+json', 'inert'],
  ['application/octet-stream', 'inert'],
  ['image/png', 'inert'],
  ['video/mp4; codecs="avc1"', 'inert'],
  ['audio/ogg', 'inert'],
  ['text/html', 'active'],
  ['TEXT/HTML ; charset=utf-8', 'active'],
  ['image/svg+xml', 'active'],
  ['application/xhtml+xml', 'active'],
  ['application/atom+xml', 'active'],
  ['text/xml', 'active'],
  ['application/pdf', 'active'],
  ['text/javascript', 'active'],
  ['text/css', 'unknown'],
  ['application/x-shockwave-flash', 'unknown'],
  ['multipart/x-mixed-replace; boundary=x', 'unknown'],
  ['message/rfc822', 'unknown'],
  ['html', 'unknown'],
  ['text/plain, text/html', 'unknown'],
  ['text/plain; a=b, text/html', 'unknown'],
  ['text/plain; a="b,text/html"', 'unknown'],
  ['text/plain text/html', 'unknown'],
  ['*/*', 'unknown'],
];

plainTest('each kind of type is known for what a browser does with it', () => {
  for (const [type, danger] of TYPES) assert.equal(dangerOf(normalizeContentType(type)), danger, type);
});

function assertHarmless({ headers }: Answer, danger: Danger, what: string): void {
  assert.equal(headers.get('x-content-type-options'), 'nosniff', what);
  assert.equal(headers.get('content-security-policy'), danger === 'inert' ? null : 'sandbox', what);
  assert.equal(headers.get('content-disposition'), danger === 'unknown' ? 'attachment' : null, what);
}

serverSuite('stored content types', { cores: 1, groups: 2 }, ({ test, expect, freshBucket }) => {
  test('are harmless in reads, live reads, HEAD, 304, snapshots, bootstraps and creates', async () => {
    for (const [type, danger] of TYPES) {
      const bucket = freshBucket();
      const [headers, body] = [{ 'Content-Type': type }, '[1]'];
      const created = await expect(201, `PUT /${bucket}/s`, { headers, body });
      const at = Number(created.headers.get('stream-next-offset'));
      await expect(204, `PUT /${bucket}/s/snapshot/${at}`, { headers, body });
      assertHarmless(created, danger, `create ${type}`);
      for (const path of [`/${bucket}/s`, `/v1/stream/${bucket}/s`]) {
        for (const query of [
          '',
          '?offset=-1',
          '?offset=now',
          `?offset=${at}`,
          '?max_bytes=0',
          '?offset=0&live=long-poll',
        ]) {
          const read = await expect(200, `GET ${path}${query}`);
          assertHarmless(read, danger, `${path}${query} ${type}`);
          const etag = read.headers.get('etag');
          if (etag === null) continue;
          const unchanged = await expect(304, `GET ${path}${query}`, { headers: { 'If-None-Match': etag } });
          assertHarmless(unchanged, danger, `304 ${path}${query} ${type}`);
        }
        assertHarmless(await expect(200, `HEAD ${path}`), danger, `HEAD ${path} ${type}`);
      }
      for (const method of ['GET', 'HEAD']) {
        assertHarmless(
          await expect(200, `${method} /${bucket}/s/snapshot/${at}`),
          danger,
          `${method} snapshot ${type}`,
        );
        assertHarmless(await expect(200, `${method} /${bucket}/s/bootstrap`), 'unknown', `${method} bootstrap ${type}`);
      }
    }
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/untyped`);
    assertHarmless(await expect(200, `GET /${bucket}/untyped`), 'inert', 'no type yet');
  });
});
