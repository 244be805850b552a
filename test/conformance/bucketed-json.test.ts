// JSON streams on the bucketed routes: bodies, record coordinates, conditional appends; and attributes.
import assert from 'node:assert/strict';
import { assertHeaders, JSON_TYPE, offsetOf, producer, serverSuite, TEXT } from '../support/suite.ts';

const EXTENSION = 'json-record-coordinates-v1';
const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

serverSuite('bucketed routes: JSON', { cores: 2 }, ({ test, expect, freshBucket }) => {
  const open = async (body?: string): Promise<string> => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE, ...(body === undefined ? {} : { body }) });
    return path;
  };

  test('a value is one record, an array one record per element; reads answer an array', async () => {
    const path = await open();
    assert.equal((await expect(200, `GET ${path}`)).text, '[]');
    const one = await expect(204, `POST ${path}`, { headers: JSON_TYPE, body: '{"a":1}' });
    assertHeaders(one, { 'stream-record-start': '0', 'stream-record-next': '1' });
    const two = await expect(204, `POST ${path}`, { headers: JSON_TYPE, body: ' [ {"b" : 2} , [3] ] ' });
    assertHeaders(two, { 'stream-record-start': '1', 'stream-record-next': '3', 'stream-extensions': EXTENSION });
    assert.equal(offsetOf(two), '{"a":1}\n{"b":2}\n[3]\n'.length);
    const all = await expect(200, `GET ${path}?offset=-1`);
    assertHeaders(all, { 'content-type': 'application/json' });
    assert.deepEqual(JSON.parse(all.text), [{ a: 1 }, { b: 2 }, [3]]);
    assert.deepEqual(JSON.parse((await expect(200, `GET ${path}?offset=8`)).text), [{ b: 2 }, [3]]);
  });

  test('order of keys, spelling of numbers and escapes are kept; blanks between tokens are not', async () => {
    const value = '{"z":1.0,"a":12345678901234567890.1000e+05,"u":"\\u00e9é\\/ \\n","z":-0,"e":{},"l":[ ]}';
    const path = await open(`\t${value.replaceAll(',', ' ,\r\n ')} `);
    const read = await expect(200, `GET ${path}`);
    const compact = value.replace('[ ]', '[]');
    assert(read.text.includes(compact), `${read.text} must hold ${compact}`);
    assert.equal(offsetOf(read), Buffer.byteLength(compact) + 1);
  });

  test('what is not one JSON value or array of values is 400 and changes nothing', async () => {
    const path = await open();
    const bad = [
      '{',
      '{"a":1,}',
      '[1,]',
      '01',
      '1 2',
      'nul',
      "'a'",
      '"\\ud800x',
      '\u{feff}1',
      ' ',
      '[]',
      '"a\nb"',
      nested(129),
      nested(10_000),
    ];
    for (const body of bad) await expect(400, `POST ${path}`, { headers: JSON_TYPE, body });
    await expect(400, `POST ${path}`, { headers: JSON_TYPE, body: Uint8Array.from([0x22, 0xff, 0x22]) });
    assert.equal(offsetOf(await expect(200, `HEAD ${path}`)), 0);
    await expect(204, `POST ${path}`, { headers: JSON_TYPE, body: nested(127) });
    const created = await expect(201, `PUT ${path}-2`, { headers: JSON_TYPE, body: '[]' });
    assertHeaders(created, { 'stream-record-start': '0', 'stream-record-next': '0', 'stream-extensions': EXTENSION });
  });

  test('a type that only begins like JSON, without a `;` behind it, is of bytes, which stay as they were sent', async () => {
    const path = `/${freshBucket()}/s`;
    const headers = { 'Content-Type': 'application/json charset=utf-8' };
    await expect(201, `PUT ${path}`, { headers, body: '[]' });
    for (const body of ['[1, {"a": 2}]', 'hello']) await expect(204, `POST ${path}`, { headers, body });
    const read = await expect(200, `GET ${path}`);
    assert.equal(read.text, '[][1, {"a": 2}]hello');
    assertHeaders(read, { 'content-type': 'application/json charset=utf-8', 'stream-extensions': null });
  });

  test('reads by record', async () => {
    const path = await open('[10,11,12,13,14]');
    const read = async (query: string): Promise<unknown> =>
      JSON.parse((await expect(200, `GET ${path}?${query}`)).text);
    assert.deepEqual(await read('record=0'), [10, 11, 12, 13, 14]);
    assert.deepEqual(await read('record=3'), [13, 14]);
    assert.deepEqual(await read('record=1&max_records=2'), [11, 12]);
    assert.deepEqual(await read('tail_records=2'), [13, 14]);
    assert.deepEqual(await read('tail_records=99'), [10, 11, 12, 13, 14]);
    for (const query of ['record=5', 'record=now', 'tail_records=0']) assert.deepEqual(await read(query), []);
    const part = await expect(200, `GET ${path}?record=1&max_records=2`);
    assertHeaders(part, {
      'stream-record-first': '0',
      'stream-record-start': '1',
      'stream-record-next': '3',
      'stream-extensions': EXTENSION,
      'stream-up-to-date': null,
    });
    assert.equal(offsetOf(part), 9);
    const beyond = await expect(400, `GET ${path}?record=6`);
    assertHeaders(beyond, { 'stream-record-first': '0', 'stream-record-next': '5' });
    assertHeaders(await expect(200, `HEAD ${path}`), {
      'stream-record-first': '0',
      'stream-record-next': '5',
      'stream-extensions': EXTENSION,
    });
  });

  test('record parameters that contradict each other or make no sense are 400', async () => {
    const path = await open('[1,2]');
    const queries = [
      'record=x',
      'record=-1',
      'record=1.5',
      'tail_records=x',
      'tail_records=-1',
      'record=0&max_records=0',
      'record=0&max_records=x',
    ];
    queries.push(
      'record=0&tail_records=1',
      'record=0&offset=0',
      'max_records=1',
      'record=0&max_bytes=10',
      'offset=0&record_view=envelope',
    );
    queries.push('record=9007199254740992', 'record=0&record_view=nonsense');
    for (const query of queries) await expect(400, `GET ${path}?${query}`);
    const bytes = `/${freshBucket()}/bytes`;
    await expect(201, `PUT ${bytes}`, { headers: TEXT, body: 'x' });
    await expect(400, `GET ${bytes}?record=0`);
    assertHeaders(await expect(200, `HEAD ${bytes}`), { 'stream-extensions': null });
  });

  test('Stream-Record-Match', async () => {
    const path = await open('[1,2]');
    const append = (status: number, match: string, extra: Record<string, string> = {}) =>
      expect(status, `POST ${path}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': match, ...extra }, body: '3' });
    const refused = await append(412, '1');
    assertHeaders(refused, { 'stream-record-next': '2', 'stream-extensions': EXTENSION });
    assert.equal(offsetOf(refused), 4);
    assertHeaders(await append(204, '2'), { 'stream-record-start': '2', 'stream-record-next': '3' });
    await append(200, '3', producer('p', 0, 0));
    // De-duplication comes first: the repeated append was right when it was accepted.
    await append(204, '3', producer('p', 0, 0));
    await append(412, '3', producer('p', 0, 1));
    await append(200, '4', producer('p', 0, 1));
    const bytes = `/${freshBucket()}/bytes`;
    await expect(201, `PUT ${bytes}`, { headers: TEXT });
    await expect(400, `POST ${bytes}`, { headers: { ...TEXT, 'Stream-Record-Match': '0' }, body: 'x' });
  });

  test('a charset of JSON does not make another type', async () => {
    const path = await open();
    await expect(204, `POST ${path}`, { headers: { 'Content-Type': 'application/json; charset=utf-8' }, body: '1' });
    await expect(400, `POST ${path}`, { headers: { 'Content-Type': 'application/x-ndjson' }, body: '1' });
  });
});

serverSuite('bucketed routes: attributes', { cores: 1 }, ({ test, expect, freshBucket }) => {
  const open = async (headers: Record<string, string> = {}): Promise<string> => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: { ...TEXT, ...headers } });
    return path;
  };
  const read = (path: string) => expect(200, `GET ${path}/attrs`);
  const put = (status: number, path: string, body: string, headers: Record<string, string> = JSON_TYPE) =>
    expect(status, `PUT ${path}/attrs`, { headers, body });

  test('{} when none, replaced as a whole, cleared by {}', async () => {
    const path = await open();
    const none = await read(path);
    assert.equal(none.text, '{}');
    assertHeaders(none, { 'content-type': 'application/json' });
    await put(204, path, '{"title":"Log","metadata":{"n":[1,{"x":null}]},"unknown":5}');
    assert.deepEqual(JSON.parse((await read(path)).text), { title: 'Log', metadata: { n: [1, { x: null }] } });
    await put(204, path, '{"metadata":{"k":"v"}}');
    assert.deepEqual(JSON.parse((await read(path)).text), { metadata: { k: 'v' } });
    await put(204, path, '{}');
    assert.equal((await read(path)).text, '{}');
  });

  test('given on create, and changed on a closed stream, without touching the stream', async () => {
    const path = await open({ 'Stream-Attrs': '{"title":"first"}', 'Stream-Closed': 'true' });
    assert.deepEqual(JSON.parse((await read(path)).text), { title: 'first' });
    const before = await expect(200, `GET ${path}`);
    await put(204, path, '{"title":"second"}');
    const after = await expect(200, `GET ${path}`);
    for (const name of ['etag', 'stream-next-offset', 'stream-closed', 'content-type']) {
      assert.equal(after.headers.get(name), before.headers.get(name), name);
    }
  });

  test('refusals', async () => {
    const path = await open();
    await put(400, path, '{}', {});
    await put(400, path, '{}', TEXT);
    for (const body of ['', '[]', '5', '{"title":5}', '{"metadata":[]}', '{"metadata":"x"}', '{"title":', nested(200)])
      await put(400, path, body);
    await put(404, `${path}-absent`, '{}');
    await expect(404, `GET ${path}-absent/attrs`);
    assert.equal((await read(path)).text, '{}');
  });

  test('16 KiB fit, one byte more does not', async () => {
    const path = await open();
    const empty = '{"title":""}'.length;
    await put(204, path, `{"title":"${'t'.repeat(16_384 - empty)}"}`);
    await put(400, path, `{"title":"${'u'.repeat(16_385 - empty)}"}`);
    assert.match((await read(path)).text, /^\{"title":"t+"\}$/);
  });
});
