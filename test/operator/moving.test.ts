// Streams in and out: from files, from a real reference server by HTTP, and from node to node. A
// run that is killed in the middle is finished by the next one, and nothing comes twice.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { DurableStreamTestServer } from '@durable-streams/server';
import { ctl, spawnCtl } from '../support/ctl.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { runVerb } from '../support/verbs.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const RECORDS = 40_000;

describe('millracectl export and import', () => {
  const server = new TestServer({ cores: 1, groups: 4 });
  const folder = temporaryFolder('moving');
  before(() => server.start());
  after(async () => {
    await server.dispose();
    removeFolder(folder);
  });

  const env = (): Record<string, string> => ({ MILLRACE_CLUSTER: '', MILLRACE_CONTEXT: '', MILLRACE_URL: server.url });
  const said = async (line: string, input?: string | Buffer): Promise<string> => {
    if (input === undefined) {
      const { code, stdout, sentence } = await runVerb(line, env());
      assert.equal(code, 0, `${line}: ${sentence}`);
      return stdout.trimEnd();
    }
    const { code, stdout, stderr } = await ctl(line.split(' '), { env: env(), input });
    assert.equal(code, 0, `${line}: ${stderr}`);
    return stdout.trimEnd();
  };
  const fails = async (code: number, line: string, sentence: RegExp): Promise<void> => {
    const ended = await runVerb(line, env());
    assert.equal(ended.code, code, `${line}: ${ended.sentence}`);
    assert.match(ended.sentence, sentence, line);
  };
  const file = (name: string, text: string | Buffer): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const cat = (name: string): Promise<string> => said(`stream cat ${name}`).then((text) => `${text}\n`);

  /** `written` is called after each accepted write; true: its answer is lost. */
  const throughProxy = async (
    written: () => boolean | Promise<boolean>,
    use: (url: string) => Promise<void>,
  ): Promise<void> => {
    const proxy = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', headers } = request;
        const init = method === 'POST' || method === 'PUT' ? { body: Buffer.concat(chunks) } : {};
        const names = Object.entries(headers).filter(([name]) => !/^(host|connection|content-length)$/.test(name));
        void fetch(server.url + request.url, {
          method,
          headers: names.map(([name, value]) => [name, String(value)]),
          ...init,
        })
          .then(async (answer) => {
            if (method === 'POST' && answer.status === 200 && (await written())) return undefined;
            response.writeHead(answer.status, Object.fromEntries(answer.headers));
            return response.end(Buffer.from(await answer.arrayBuffer()));
          })
          .catch(() => response.destroy());
      });
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    try {
      await use(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
    } finally {
      proxy.closeAllConnections();
      proxy.close();
    }
  };

  test('an import that is killed in the middle is finished by the next one', async () => {
    const lines = Array.from({ length: RECORDS }, (_, n) => `{"n":${n},"text":"${'x'.repeat(80)}"}\n`).join('');
    const events = file('events.jsonl', lines);
    let writes = 0;
    // After the third write the tool is killed, before it learns that the write was done.
    let onThirdWrite = (): void => undefined;
    const isLost = (): boolean => {
      if (++writes === 3) onThirdWrite();
      return writes === 3;
    };
    await throughProxy(isLost, async (url) => {
      const killed = spawnCtl(['import', events, '--to', 'moved/events', '--url', url], { env: env() });
      onThirdWrite = () => void killed.child.kill('SIGKILL');
      assert.equal(await killed.ended, 'SIGKILL');
    });
    assert.equal(writes, 3);
    const again = await said(`import ${events} --to moved/events`);
    const [, brought, there] = /^moved\/events: (\d+) records imported, (\d+) were there$/.exec(again) ?? [];
    assert(Number(brought) > 0 && Number(there) > 0, again);
    assert.equal(Number(brought) + Number(there), RECORDS);
    assert.equal(await cat('moved/events'), lines);
    assert.match(await said(`import ${events} --to moved/events`), /: 0 records imported, 40000 were there$/);
    // The source grows.
    appendFileSync(events, '{"n":-1}\n');
    assert.match(
      await said(`import ${events} --to moved/events --close`),
      /: 1 records imported, 40000 were there, closed$/,
    );
    assert.match(await said(`import ${events} --to moved/events --close`), /: 0 records imported/);
    appendFileSync(events, '{"n":-2}\n');
    await fails(
      1,
      `import ${events} --to moved/events`,
      /moved\/events is closed, and the source has more than the 40001/,
    );
  });

  test('other writers, other sources, other types and bad records are refused', async () => {
    const events = file('few.jsonl', '{"a":1}\n{"a":2}\n');
    await said('stream append moved/busy [1] --create --content-type application/json');
    await fails(1, `import ${events} --to moved/busy`, /moved\/busy holds something that this import did not bring/);
    await said(`import ${events} --to moved/few`);
    await said('stream append moved/few [3]');
    appendFileSync(events, '{"a":3}\n{"a":4}\n');
    await fails(
      1,
      `import ${events} --to moved/few`,
      /moved\/few was written by another writer .*it holds 3, .*ended at 2\)/,
    );
    await fails(
      1,
      `import ${file('other.jsonl', '1\n')} --to moved/few`,
      /holds something that this import did not bring/,
    );
    await fails(
      1,
      `import ${file('log.txt', 'text')} --to moved/few`,
      /is a stream of application\/json, and \S+ has text\/plain/,
    );
    await fails(1, `import ${file('bad.jsonl', '{"a":1}\n{"a":\n')} --to moved/bad`, /record 2 is not JSON/);
    await fails(2, `import ${events}`, /needs --to BUCKET\/STREAM$/);
    await fails(1, `import ${folder} --to x`, /is not the folder of an export$/);
    await fails(1, 'import /nowhere --to a/b', /\/nowhere cannot be read: no such file or directory$/);
  });

  test('another writer of bytes is noticed before the import writes behind it', async () => {
    const bytes = file('shared.txt', 'a'.repeat(3_000_000));
    let [writes, own] = [0, 0];
    const written = async (): Promise<boolean> => {
      if (++writes > 1) return false;
      const headers = { 'content-type': 'text/plain; charset=utf-8' };
      const answer = await fetch(`${server.url}/moved/shared`, { method: 'POST', headers, body: 'intruder' });
      own = Number(answer.headers.get('stream-next-offset')) - 'intruder'.length;
      return false;
    };
    await throughProxy(written, async (url) => {
      await fails(
        1,
        `import ${bytes} --to moved/shared --url ${url}`,
        /shared was written by another writer .*Stream-Expected-Offset is \d{20}, the tail is \d{20}/,
      );
    });
    assert.equal(await said('stream cat moved/shared'), `${'a'.repeat(own)}intruder`);
  });

  test('bytes from stdin and from a file', async () => {
    const bytes = createHash('sha512').update('x').digest().toString('base64').repeat(30_000);
    assert.match(await said('import - --to moved/raw --content-type text/plain', bytes), /: 2640000 bytes imported$/);
    assert.match(
      await said('import - --to moved/raw --content-type text/plain', `${bytes}more`),
      /: 4 bytes imported, 2640000 were there$/,
    );
    assert.equal(await said('stream cat moved/raw'), `${bytes}more`);
    assert.match(
      await said(`import ${file('raw.bin', bytes)} --to moved/file -o json`),
      /^\[\{.*"brought":2640000,"before":0,/,
    );
  });

  test('a stream and a bucket, out and in again', async () => {
    await said('stream append pair/a/b --create --content-type text/plain', 'some\ntext');
    await said('stream append pair/.. --create x').catch(() => undefined);
    await said('stream append pair/events --create --json-lines', '{"n":2.50}\n["é"]\n');
    await said(`stream append pair/${'long'.repeat(80)} --create x --close`);
    const out = join(folder, 'pair');
    const first = await said(`export pair --to ${out}`);
    assert.match(first, /^bucket pair: 3 streams, 28 B written to /);
    assert.deepEqual(
      readdirSync(out)
        .filter((name) => name.length < 50)
        .toSorted(),
      ['a%2Fb.txt', 'events.jsonl', 'export.ndjson'],
    );
    assert.equal(readFileSync(join(out, 'events.jsonl'), 'utf8'), '{"n":2.50}\n["é"]\n');
    const again = await said(`import ${out} --to copy`);
    assert.equal(again.split('\n').length, 3, again);
    assert.equal(await said('stream cat copy/a/b'), 'some\ntext');
    assert.equal(await cat('copy/events'), '{"n":2.50}\n["é"]\n');
    const fact = JSON.parse(await said(`stream stat copy/${'long'.repeat(80)} -o json`)) as Record<string, unknown>;
    assert.deepEqual([fact['closed'], fact['tail_offset']], [true, 1]);
    // A kill leaves half a line. Records added since come along.
    const events = join(out, 'events.jsonl');
    truncateSync(events, 14);
    await said('stream append pair/events {"n":3}');
    assert.match(
      await said(`export pair --to ${out}`),
      /: 3 streams, 15 B written to \S+, behind 21 B that were there$/,
    );
    assert.equal(readFileSync(events, 'utf8'), '{"n":2.50}\n["é"]\n{"n":3}\n');
    // Another stream under the same name.
    await said('stream rm pair/events --yes');
    await said('stream append pair/events --create --json-lines', '{"n":9}\n{"n":10}\n{"n":11}\n{"n":12}\n');
    await fails(1, `export pair --to ${out}`, /events\.jsonl is not the beginning of pair\/events; remove it/);
    assert.equal(await said(`export pair/a/b`), 'some\ntext');
    assert.match(await said(`export pair/a/b --to ${join(folder, 'ab.txt')}`), /^pair\/a\/b: 9 B written to /);
    await fails(2, 'export pair', /export of a bucket needs --to DIR/);
    await fails(3, `export none --to ${join(folder, 'none')}`, /bucket none has no such streams/);
    await fails(3, 'export pair/none', /pair\/none is not there/);
    // From node to node, from a floor and from a record on.
    await server.client.request('PUT', '/pair/events/snapshot?record=1', JSON_TYPE, '{}');
    await server.client.request('PUT', '/pair/events/retention?record=1');
    const source = `${server.url}/v1/stream/pair/events`;
    assert.match(await said(`import ${source} --to pair/trimmed`), /: 3 records imported$/);
    assert.equal(await cat('pair/trimmed'), '{"n":10}\n{"n":11}\n{"n":12}\n');
    await said('stream append pair/events {"n":13}');
    assert.match(await said(`import ${source} --to pair/trimmed`), /: 1 records imported, 3 were there$/);
  });

  test('a stream whose name begins with a dot keeps no export from coming back', async () => {
    await said('stream append dotted/.env --create x');
    await said('stream append dotted/..env --create y');
    const out = join(folder, 'dotted');
    await said(`export dotted --to ${out}`);
    await said(`import ${out} --to undotted`);
    assert.deepEqual([await said('stream cat undotted/.env'), await said('stream cat undotted/..env')], ['x', 'y']);
  });

  test('a server that lies, a folder that was tampered with: one sentence, and nothing is done', async () => {
    let asked = 0;
    const liar = createServer(({ method, url = '' }, response) => {
      asked++;
      const isBusy = url.startsWith('/v1/stream/a/busy') && method === 'GET' && asked < 3;
      const turn = /offset=(\d+)$/.exec(url)?.[1] ?? '0';
      if (url.startsWith('/v1/stream/a/running'))
        return void response
          .writeHead(200, { 'content-type': 'text/plain', 'stream-next-offset': Number(turn) + 1 })
          .end();
      if (url.startsWith('/v1/stream/a/standing'))
        return void response.writeHead(200, { 'content-type': 'text/plain', 'stream-next-offset': '7' }).end('more');
      if (url.startsWith('/v1/stream/a/made-again')) {
        const again = { 'content-type': 'text/plain', 'stream-next-offset': '4', 'stream-incarnation': turn };
        return void response.writeHead(200, again).end(method === 'HEAD' ? undefined : 'more');
      }
      const coding = /^\/v1\/stream\/a\/coded-(\w+)/.exec(url)?.[1];
      if (coding !== undefined) {
        const encoded = coding === 'br' ? brotliCompressSync('plain text') : gzipSync('plain text');
        const plain = { 'content-type': 'text/plain', 'content-encoding': coding, 'stream-up-to-date': 'true' };
        return void response.writeHead(200, plain).end(method === 'HEAD' ? undefined : encoded);
      }
      if (isBusy) return void response.writeHead(429, { 'retry-after': '1' }).end();
      const headers = { 'content-type': 'text/plain', 'stream-next-offset': 'again' };
      if (url.startsWith('/v1/stream/a/busy'))
        return void response.writeHead(200, { ...headers, 'stream-up-to-date': 'true' }).end('it is');
      return void response.writeHead(200, headers).end();
    });
    liar.listen(0, '127.0.0.1');
    await once(liar, 'listening');
    const at = `http://127.0.0.1:${(liar.address() as AddressInfo).port}/v1/stream/a`;
    try {
      await fails(
        1,
        `import ${at}/endless --to lies/endless`,
        /there is more behind offset again, it says, and sends nothing$/,
      );
      await fails(
        1,
        `import ${at}/running --to lies/running`,
        /there is more behind offset \d+, it says, and sends nothing$/,
      );
      await fails(
        1,
        `import ${at}/standing --to lies/standing`,
        /what it sends from offset 7 ends at offset 7, it says$/,
      );
      await fails(
        3,
        `import ${at}/made-again --to lies/made-again`,
        /it is gone, and another one of its name was made$/,
      );
      for (const coding of ['gzip', 'br']) {
        await said(`import ${at}/coded-${coding} --to lies/${coding}`);
        assert.equal(await cat(`lies/${coding}`), 'plain text\n');
      }
      await fails(1, `import ${at}/coded-zstd --to lies/zstd`, /Content-Encoding zstd is not one that import decodes/);
      asked = 0;
      assert.match(await said(`import ${at}/busy --to lies/busy`), /: 5 bytes imported$/);
      await fails(2, `import ${at}/%zz`, /has an escape \(%\) that is not one$/);
    } finally {
      liar.closeAllConnections();
      liar.close();
    }
    const tampered = join(folder, 'tampered');
    mkdirSync(tampered);
    writeFileSync(join(tampered, 'x.bin'), 'x');
    const index = (stream: string, type: string): void =>
      writeFileSync(
        join(tampered, 'export.ndjson'),
        `{"format":"millrace-export","version":1,"bucket":"lies"}\n{"stream":"${stream}","content_type":"${type}","file":"x.bin"}\n`,
      );
    for (const path of ['..', '.', '', '../x.bin']) {
      writeFileSync(
        join(tampered, 'export.ndjson'),
        `{"format":"millrace-export","version":1,"bucket":"lies"}\n{"stream":"s","content_type":"text/plain","file":"${path}"}\n`,
      );
      await fails(1, `import ${tampered}`, /export\.ndjson, line 2 describes no stream$/);
    }
    index('half \\ud83d', 'text/plain');
    await fails(1, `import ${tampered}`, /the name is not valid Unicode$/);
    index('header', 'text/plain\\r\\nx: y');
    await fails(
      1,
      `import ${tampered}`,
      /content-type, "text\/plain\\r\\nx: y", has characters that no header may have$/,
    );
    index('\\u001b[31mred\\u202e', 'text/plain');
    const { stdout } = await ctl(['import', tampered], { env: env() });
    assert.equal(stdout, 'lies/\\u001b[31mred\\u202e: 1 bytes imported\n');
  });

  test('the reference server', async () => {
    const data = join(folder, 'reference');
    mkdirSync(data);
    const reference = new DurableStreamTestServer({ port: 0, host: '127.0.0.1', dataDir: data });
    const url = await reference.start();
    const ask = async (
      method: string,
      path: string,
      headers: Record<string, string> = {},
      body?: string,
    ): Promise<void> => {
      const answer = await fetch(`${url}/v1/stream/${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body }),
      });
      assert(answer.ok, `${method} ${path}: ${answer.status}`);
    };
    const text = { 'content-type': 'text/plain' };
    try {
      await ask('PUT', 'ref/events', { ...JSON_TYPE, 'stream-ttl': '3600' });
      await ask('POST', 'ref/events', JSON_TYPE, '[{"n":1,"s":"a,]\\""},{"n":2}]');
      await ask('POST', 'ref/events', JSON_TYPE, '[3]');
      await ask('PUT', 'ref/log', text, 'hello ');
      await ask('POST', 'ref/log', { ...text, 'stream-closed': 'true' }, 'world');
      const source = `${url}/v1/stream/ref/events`;
      assert.match(await said(`import ${source} --to http/events`), /: 3 records imported$/);
      await ask('POST', 'ref/events', JSON_TYPE, '{"n":4}');
      assert.match(await said(`import ${source} --to http/events`), /: 1 records imported, 3 were there$/);
      assert.equal(await cat('http/events'), '{"n":1,"s":"a,]\\""}\n{"n":2}\n3\n{"n":4}\n');
      assert.match(
        await said(`import ${url}/v1/stream/ref/log --to http`),
        /^http\/ref\/log: 11 bytes imported, closed$/,
      );
      await fails(3, `import ${url}/v1/stream/none`, /none is not there/);
    } finally {
      await reference.stop();
    }
    await fails(1, `import ${source(url)} --retry-secs 0`, /cannot be reached \(connection refused\)$/);
    await fails(1, `import ${data}`, /reference is not the folder of an export$/);
  });
});

const source = (url: string): string => `${url}/v1/stream/ref/events`;
