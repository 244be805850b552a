// Paths that are remembered read as those that are parsed, and there is a bound to them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KnownPaths, newPath, parsePath } from '../../src/http/paths.ts';

/** Counts what it is asked. */
class Groups {
  asked = 0;

  groupOf(bucket: string, stream: string): number {
    this.asked++;
    return bucket.length * 100 + stream.length;
  }
}

function parsed(url: string): object {
  const path = newPath();
  path.url = url;
  parsePath(url, path);
  return path;
}

test('a path that comes again and again is parsed no more, and stays what it was', () => {
  const groups = new Groups();
  const paths = new KnownPaths(groups);
  const urls = [
    '/b/s',
    '/b/a%2Fb',
    '/v1/stream/b/s',
    '/v1/stream/s',
    '/b/s/',
    '/b/..',
    '/b/s/attrs',
    '/b',
    '/b/streams',
  ];
  const seen = newPath();
  for (let i = 0; i < 100; i++) {
    for (const url of urls) {
      paths.parse(url, seen);
      const { group, ...path } = seen;
      assert.deepEqual({ ...path, group: -1 }, parsed(url), url);
      assert.ok(group === -1 || group === path.bucket.length * 100 + path.stream.length, url);
    }
  }
  const known = urls.filter((url) => {
    paths.parse(url, seen);
    return seen.group >= 0;
  });
  assert.deepEqual(known, ['/b/s', '/b/a%2Fb', '/v1/stream/b/s', '/v1/stream/s']);
  assert.equal(groups.asked, known.length);
});

test('what clients ask for once makes it hold no more than its bound, nor a long path', () => {
  const paths = new KnownPaths(new Groups());
  const path = newPath();
  let most = 0;
  for (let i = 0; i < 200_000; i++) {
    paths.parse(`/b/s${i}`, path);
    most = Math.max(most, paths.size);
  }
  assert.equal(most, 8192);
  const long = new KnownPaths(new Groups());
  for (let i = 0; i < 100; i++) long.parse(`/b/${'s'.repeat(200)}`, path);
  assert.equal(long.size, 0);
});
