// Verbs of streams and buckets against a real node: bytes, records, pipes, exit codes, and a follower over a restart.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { EXIT_CODES } from '../../src/nodes/failure.ts';
import { type CtlResult, type CtlRun, CTL_ENTRY, ctl, scratchFile, startCtl } from '../support/ctl.ts';
import { readDocument } from '../support/documents.ts';
import { freePort } from '../support/ports.ts';
import { TestServer, run, within } from '../support/server.ts';
import { Terminal, scriptMissing } from '../support/terminal.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { runVerb } from '../support/verbs.ts';

describe('millracectl stream and bucket', () => {
  const server = new TestServer({ process: true, cores: 1, groups: 4 });
  let config = '';
  const env = (): Record<string, string> => ({ MILLRACE_CLUSTER: config, MILLRACE_URL: '', MILLRACE_CONTEXT: '' });

  before(async () => {
    await server.start();
    // The first node of the file is away: the next one is asked.
    const nodes = [await freePort(), server.port].map(
      (port, i) =>
        `[[nodes]]\nid = ${2 - i}\nhttp_url = "http://127.0.0.1:${port}"\nadmin_url = "http://127.0.0.1:${i === 0 ? port : server.adminPort}"\n`,
    );
    config = scratchFile('cluster.toml', nodes.join('\n'));
  });
  after(() => server.dispose());

  const tool = (args: readonly string[], input: string | Buffer = ''): Promise<CtlResult> =>
    ctl(args, { env: env(), input });
  const said = async (line: string, input?: string | Buffer): Promise<string> => {
    if (input === undefined) {
      const { code, stdout, sentence } = await runVerb(line, env());
      assert.equal(code, 0, `${line}: ${sentence}`);
      return stdout;
    }
    const { code, stdout, stderr } = await tool(line.split(' '), input);
    assert.equal(code, 0, `${line}: ${stderr}`);
    return stdout;
  };
  const fails = async (code: number, line: string, sentence: RegExp): Promise<void> => {
    const ended = await runVerb(line, env());
    assert.deepEqual([ended.code, ended.stdout], [code, ''], `${line}: ${ended.sentence}`);
    assert.match(ended.sentence, sentence, line);
  };

  test('bytes go in and come out as they are', async () => {
    // Larger than what one answer brings, and no text.
    const bytes = Buffer.alloc(5_000_000);
    for (let at = 0; at < bytes.length; at += 32) createHash('sha256').update(String(at)).digest().copy(bytes, at);
    assert.match(
      await said('stream append demo/blob --create', bytes),
      /^demo\/blob: 4\.8 MiB appended, next offset 5000000$/m,
    );
    const command = `'${process.execPath}' '${CTL_ENTRY}' stream cat demo/blob | sha256sum`;
    const piped = run(['bash', '-o', 'pipefail', '-c', command], env());
    assert.equal(await piped.exited, 0, piped.output());
    assert.equal(piped.output().split(' ')[0], createHash('sha256').update(bytes).digest('hex'));
    const head = run(
      ['bash', '-c', `${command.replace('sha256sum', 'head -c 4 | wc -c')}; echo \${PIPESTATUS[0]}`],
      env(),
    );
    assert.equal(await head.exited, 0);
    assert.equal(head.output(), '4\n0\n', 'a reader that leaves early is no failure');
    assert.equal((await said('stream cat demo/blob --offset 4999968')).length > 0, true);
    await fails(1, 'stream cat demo/blob --offset 6000000', /demo\/blob: it answered 416/);
  });

  test('records are lines, as they were written', async () => {
    const lines = '{"n":1.50}\n\n{"a":"é\\n", "b":[1, 2]}\r\n"x"';
    const shown = JSON.parse(await said('stream append demo/events --create --json-lines -o json', lines)) as object;
    assert.deepEqual(shown, { stream: 'demo/events', bytes: 42, next_offset: 38 });
    const stored = '{"n":1.50}\n{"a":"é\\n","b":[1,2]}\n"x"\n';
    assert.equal(await said('stream cat demo/events'), stored);
    assert.equal(await said('stream append demo/events [4,5]'), 'demo/events: 5 B appended, next offset 42\n');
    assert.equal(await said('stream tail demo/events -n 2'), '4\n5\n');
    assert.equal(await said('stream tail demo/events -n 99'), `${stored}4\n5\n`);
    assert.equal(await said('stream tail demo/events -n 0'), '');
    const wrong = await tool(['stream', 'append', 'demo/events', '--json-lines'], '{"a":1}\n1,2\n');
    assert.deepEqual([wrong.code, wrong.stdout], [1, '']);
    assert.match(wrong.stderr, /^millracectl: record 2 is not JSON: /m);
    assert.equal(await said('stream tail demo/events -n 1'), '5\n', 'nothing of it was appended');
    await fails(
      2,
      'stream append demo/blob x --json-lines',
      /is a stream of application\/octet-stream; --json-lines is for/,
    );
  });

  test('lines of a text, over several reads', async () => {
    const text = Array.from({ length: 3000 }, (_, i) => `line ${i} ${'-'.repeat(60)}`).join('\n');
    await said('stream create demo/text --content-type text/plain --ttl-secs 3600');
    assert.equal(
      await said('stream create demo/text --content-type text/plain --ttl-secs 3600'),
      'demo/text: there already\n',
    );
    await said('stream append demo/text', text);
    assert.equal(await said('stream tail demo/text -n 2'), text.split('\n').slice(-2).join('\n'));
    assert.equal(
      await said('stream tail demo/text -n 1500'),
      text.split('\n').slice(-1500).join('\n'),
      'more than a step',
    );
    assert.equal(await said('stream tail demo/text --lines=5000'), text);
    assert.equal((await said('stream tail demo/text')).split('\n').length, 10);
  });

  test('ls, stat, buckets and quotas, as tables and as JSON', async () => {
    await said('stream append demo/a/b --create x --content-type text/plain');
    const listed = JSON.parse(await said('stream ls demo -o json')) as { stream_id: string }[];
    assert.deepEqual(
      listed.map((one) => one.stream_id),
      ['a/b', 'blob', 'events', 'text'],
    );
    assert.deepEqual(JSON.parse(await said('stream ls demo --prefix t --output json')).length, 1);
    const table = (await said('stream ls demo --limit 2')).split('\n');
    assert.match(table[0] ?? '', /^stream +type +state +size +created +last write$/);
    assert.match(table[2] ?? '', /^blob +application\/octet-stream +open +4\.8 MiB +2\d{3}-\S+Z +2\d{3}-\S+Z$/);
    assert.equal(table.length, 4);
    const fact = JSON.parse(await said('stream stat demo/events -o json')) as Record<string, unknown>;
    assert.deepEqual(
      [fact['bucket'], fact['stream'], fact['tail_offset'], fact['next_record'], fact['closed'], fact['attributes']],
      ['demo', 'events', 42, 5, false, {}],
    );
    assert.match(await said('stream stat demo/text'), /^ttl_seconds +3600$/m);
    const buckets = JSON.parse(await said('bucket ls -o json')) as { bucket: string; stream_count: number }[];
    assert.deepEqual(
      buckets.map(({ bucket, stream_count: count }) => [bucket, count]),
      [['demo', 4]],
    );
    assert.match(await said('bucket ls'), /^bucket +streams +size\ndemo +4 +\d\.\d MiB\n$/);
    assert.match(await said('bucket quota demo --max-streams 9'), /^quota +value\n[^]*^max_streams +9$/m);
    assert.match(await said('bucket quota demo --clear -o json'), /"max_streams":null/);
    assert.match(await said('members -o json'), /^\{"members":\[/);
    assert.match(await said('status --output json'), /^\{\n {2}"cluster_id"/);
    await fails(2, 'stream ls demo --output xml', /--output xml: expected json or table/);
  });

  test('parts of a stream: beginnings and ends, attributes, forks, snapshots, closure', async () => {
    assert.match(await said('stream append demo/parts --create --json-lines', '1\n2\n3\n4\n'), /4 records appended/);
    assert.equal(await said('stream cat demo/parts --limit 2'), '1\n2\n');
    assert.equal(await said('stream cat demo/parts --record 1 --limit 2'), '2\n3\n');
    assert.equal(await said('stream cat demo/parts --record 3'), '4\n');
    assert.equal(await said('stream tail demo/parts -n 3 --limit 2'), '2\n3\n');
    assert.equal(await said('stream tail -f demo/parts -n 1 --limit 1'), '4\n', 'it ends by itself');
    assert.equal((await said('stream cat demo/text --limit 1')).split(' ').slice(0, 2).join(' '), 'line 0');
    await fails(2, 'stream cat demo/parts --record 1 --offset 2', /give --offset or --record, not both$/);
    await fails(1, 'stream cat demo/text --record 1', /demo\/text: it answered 400/);
    assert.equal(await said('stream attrs demo/parts'), '{}\n');
    assert.equal(await said('stream attrs demo/parts {"title":"Parts"}'), '{"title":"Parts"}\n');
    await fails(1, 'stream attrs demo/parts nonsense', /demo\/parts: it answered 400/);
    assert.equal(await said('stream fork demo/parts demo/half --offset 4'), 'demo/half: forked from demo/parts\n');
    assert.equal(await said('stream fork demo/parts demo/half --offset 4'), 'demo/half: there already\n');
    assert.equal(await said('stream cat demo/half'), '1\n2\n');
    await fails(3, 'stream fork demo/none demo/fork', /^fork demo\/fork of demo\/none is not there/);
    await fails(2, 'stream snapshot demo/parts --publish -', /--publish needs --offset or --record/);
    assert.equal(
      await said('stream snapshot demo/parts --publish - --record 2 --content-type application/json', '{"sum":3}'),
      'demo/parts: snapshot of 9 bytes published\n',
    );
    assert.equal(await said('stream snapshot demo/parts'), '{"sum":3}');
    assert.equal(await said('stream close demo/half'), 'demo/half: closed at offset 4\n');
    assert.equal(await said('stream close demo/half'), 'demo/half: closed at offset 4\n', 'it may be repeated');
    await fails(1, 'stream append demo/half 3', /demo\/half: it answered 409 \(the stream is closed/);
    await said('stream rm demo/half --yes');
    await said('stream rm demo/parts --yes');
  });

  test('--since begins at the time that records say, and lists what was written since', async () => {
    const now = Date.now();
    const ago = (minutes: number): number => now - minutes * 60_000;
    const records = [ago(90), new Date(ago(61)).toISOString(), Math.floor(ago(60) / 1000), ago(30), now].map(
      (time, n) => `${JSON.stringify({ n, time, late: now })}\n`,
    );
    await said('stream append timed/events --create --json-lines', records.join(''));
    const since = async (rest: string): Promise<string> => await said(`stream cat timed/events --since ${rest}`);
    for (let first = 0; first <= records.length; first++) {
      const when = new Date(first === 0 ? ago(91) : ago([90, 61, 60, 30, 0][first - 1] ?? 0) + 1000).toISOString();
      assert.equal(await since(when), records.slice(first).join(''), when);
    }
    assert.equal(await since('45m'), records.slice(3).join(''));
    assert.equal(await since('2d --limit 1'), records[0]);
    assert.equal(await since('1h --time-field late --limit 2'), records.slice(0, 2).join(''));
    assert.equal(await said('stream tail timed/events --since 45m'), records.slice(3).join(''));
    await said('stream close timed/events');
    assert.equal(await said('stream tail -f timed/events --since 62m'), records.slice(1).join(''), 'up to its end');
    assert.equal(await said('stream tail -f timed/events --since 9999-01-01'), '');
    await said('stream create timed/empty --content-type application/json');
    assert.equal(await said('stream cat timed/empty --since 1h'), '');
    await fails(
      1,
      'stream cat timed/events --since 1h --time-field at',
      /record 2 has no time in its field "at"; --time-/,
    );
    await fails(2, 'stream cat timed/events --since 1h --record 2', /give --record or --since, not both$/);
    await fails(2, 'stream tail timed/events --since 1h -n 2', /give --lines or --since, not both$/);
    for (const wrong of ['60', 'yesterday', '2026-13-01', '2026-01-31T12:00'])
      await fails(2, `stream cat timed/events --since ${wrong}`, /expected how long ago, as 10m, or when, as 2026-/);
    await fails(1, 'stream cat demo/text --since 1h', /only records of JSON streams can say their time/);
    assert.match(await said('stream ls timed --since 1h'), /^stream .*\nempty .*\nevents .*\n$/);
    assert.match(await said('stream ls timed --since 1h --limit 1'), /^stream .*\nempty .*\n$/);
    assert.equal(await said('stream ls timed --since 9999-01-01 --json'), '[]\n');
    for (const name of ['empty', 'events']) await said(`stream rm timed/${name} --yes`);
  });

  test('lines of JSON on stdin are records, also without a flag', async () => {
    await said('stream create demo/lines --content-type application/json');
    assert.match(await said('stream append demo/lines', '{"a":1}\n{"a":2}\n'), /^demo\/lines: 2 records appended/);
    assert.match(await said('stream append demo/lines', '{\n"a":3\n}\n'), /^demo\/lines: 10 B appended/);
    const wrong = await tool(['stream', 'append', 'demo/lines'], '{"a":4}\n{"a":\n');
    assert.match(wrong.stderr, /it answered 400/, 'nothing is taken for lines that is not');
    assert.equal(await said('stream cat demo/lines'), '{"a":1}\n{"a":2}\n{"a":3}\n');
    await said('stream rm demo/lines --yes');
    const hinted = await tool(['stream', 'append', 'demo/lines', '--create'], '{"a":1}\n{"a":2}\n');
    assert.match(
      hinted.stderr,
      /^demo\/lines keeps these lines of JSON as bytes; --content-type application\/json makes/m,
    );
    const plain = await tool(['stream', 'append', 'demo/lines', '--create'], '{"a":1}\n2\n');
    assert.equal(plain.stderr, '');
    await said('stream rm demo/lines --yes');
  });

  test('bench measures three parts on streams that it removes', async () => {
    const rows = JSON.parse(
      await said('bench --phase-secs 50ms --writers 3 --streams 2 --size 64B --bucket load --json'),
    ) as { phase: string; calls: number; bytes: number; p50_ms: number; max_ms: number }[];
    assert.deepEqual(
      rows.map(({ phase }) => phase),
      ['append', 'read', 'tail'],
    );
    for (const row of rows) assert(row.calls >= 3 && row.bytes > 0 && row.p50_ms <= row.max_ms, JSON.stringify(row));
    assert.equal((rows[0]?.bytes ?? 0) / (rows[0]?.calls ?? 0), 64);
    assert.equal(await said('stream ls load --json'), '[]\n');
    await fails(2, 'bench --size 2MiB', /^--size 2MiB: expected bytes from 1 to 1048576, or a size as 64KiB$/);
    const begun = startCtl(['bench', '--phase-secs', '600', '--bucket', 'load'], { env: env() });
    for (let made = 0; made === 0;) made = (JSON.parse(await said('stream ls load --json')) as object[]).length;
    begun.interrupt();
    assert.equal(await within(begun.ended, PATIENCE_MS, 'Ctrl-C'), 2);
    assert.equal(await said('stream ls load --json'), '[]\n', 'what it made is gone');
  });

  test('health, usage and subscriptions', async () => {
    const onlyHere = scratchFile('one.toml', `[[nodes]]\nid = 1\nhost = "h"\nadmin_url = "${server.adminUrl}"\n`);
    assert.match(await said(`health --config ${onlyHere}`), /^1 of 1 nodes answer; 4 groups[^]*\nhealthy\n$/);
    const sick = await runVerb('health', env());
    assert.equal(sick.code, 1);
    assert.match(sick.sentence, /^not healthy: node 2 \(127\.0\.0\.1\): metrics unavailable — /);
    const told = JSON.parse((await runVerb('health --json', env())).stdout) as { healthy: boolean; findings: object[] };
    assert.deepEqual([told.healthy, told.findings.length > 1], [false, true]);
    const [used] = JSON.parse(await said('usage demo --json')) as { bucket: string; committed_records: number }[];
    assert.equal(used?.bucket, 'demo');
    assert.match(await said('usage'), /^bucket +written +records +units +kept +streams\ndemo +\d/);
    assert.equal(await said('subscription ls --json'), '[]\n');
    const made = await server.client.request(
      'PUT',
      '/v1/stream/__ds/subscriptions/pool',
      { 'content-type': 'application/json' },
      JSON.stringify({ type: 'pull-wake', pattern: 'jobs/*', wake_stream: 'wake/pool' }),
    );
    assert.equal(made.status, 201);
    assert.match(await said('subscription ls'), /^pool +pull-wake +0 +idle +0 +wake\/pool$/m);
    assert.match(await said('subscription stat pool'), /^pattern +jobs\/\*$/m);
  });

  test('names that a terminal would obey are shown as escapes', async () => {
    assert.equal((await server.client.request('PUT', '/odd/a%1B%5B31mb')).status, 201);
    assert.match(await said('stream ls odd'), /^a\\u001b\[31mb /m);
    assert.equal(
      await said('bucket purge odd --confirm odd'),
      'bucket odd: 1 streams and 0 objects of the cold store are gone\n',
    );
  });

  test('every exit code of the manual', async () => {
    const rows = readDocument('src/operator/README.md').matchAll(/^\| (\d) \| (.+) \|$/gm);
    assert.deepEqual(
      [...rows].map(([, code, meaning]) => ({ code: Number(code), meaning })),
      EXIT_CODES,
    );
    await said('stream stat demo/text');
    await fails(
      1,
      `stream stat demo/text --retry-secs 0 --url http://127.0.0.1:${await freePort()}`,
      /cannot be reached \(connection refused\)$/,
    );
    await fails(2, 'stream stat demo', /"demo": expected BUCKET\/STREAM$/);
    await fails(
      2,
      'stream',
      /stream needs a verb: ls, cat, tail, stat, create, append, close, rm, attrs, fork, snapshot; see stream --help$/,
    );
    await fails(2, 'stream rm demo/text', /this asks first, and there is no terminal: give --yes$/);
    for (const line of ['stat', 'cat', 'tail', 'append', 'close', 'attrs', 'rm --yes'].map(
      (verb) => `stream ${verb} demo/none`,
    ))
      await fails(3, line, /^demo\/none is not there \(it answered 404/);
    assert.equal(await said('stream ls none -o json'), '[]\n');
    // An admin plane has no such routes: that does not say that the bucket is not there.
    const admin = `http://127.0.0.1:${server.adminPort}`;
    for (const line of ['stream ls demo', 'stream stat demo/text', 'stream cat demo/text'])
      await fails(
        1,
        `${line} --url ${admin}`,
        /has no such route; give that of a client plane, not of an admin plane$/,
      );
    await fails(3, 'stream snapshot demo/text', /^a snapshot of demo\/text is not there \(it answered 404/);
    await fails(3, 'subscription stat none', /^subscription none is not there$/);
    await fails(3, 'usage none', /^bucket none has written nothing$/);
    await fails(2, 'stream create demo/x --ttl-secs 500ms', /^--ttl-secs: expected whole seconds$/);
    await fails(2, 'bucket purge demo', /there is no terminal: give --confirm demo$/);
    assert.match(
      (await tool(['stream', '--help'])).stdout,
      /^usage: millracectl stream VERB[^]*stream tail[^]* 3 {2}the stream/,
    );
  });

  test('rm asks a person; colours are for terminals only', { skip: scriptMissing() ?? false }, async () => {
    await said('stream append demo/gone x --create');
    const start = (...args: string[]): Terminal =>
      new Terminal(
        [
          'env',
          `MILLRACE_CLUSTER=${config}`,
          ...args.slice(0, -1),
          process.execPath,
          CTL_ENTRY,
          ...(args.at(-1) ?? '').split(' '),
        ],
        100,
        30,
      );
    const no = start('stream rm demo/gone');
    await no.shows(/delete demo\/gone with 1 B\? Nothing brings it back\. \[y\/N\]/);
    no.type('n\r');
    assert.match((await no.lastLines()).join('\n'), /millracectl: demo\/gone was not deleted\nexit 1$/);
    const yes = start('stream rm demo/gone');
    await yes.shows(/\[y\/N\]/);
    yes.type('y\r');
    assert.match((await yes.lastLines()).join('\n'), /demo\/gone: deleted\nexit 0$/);
    const coloured = start('bucket ls');
    await coloured.ended;
    assert.match(coloured.raw, /\u001b\[1mbucket/);
    const plain = start('NO_COLOR=1', 'bucket ls');
    await plain.ended;
    assert.doesNotMatch(plain.raw, /\u001b\[1m/);
  });

  test('tail -f goes on when the node restarts, and ends when the stream is closed', async () => {
    await said('stream append demo/live one\n --create --content-type text/plain'.replace('\\n', '\n'));
    const follower = startCtl(['stream', 'tail', '-f', 'demo/live'], { env: env() });
    await shows(follower, 'one\n');
    await said('stream append demo/live two\n');
    await shows(follower, 'one\ntwo\n');
    await server.kill();
    await server.start();
    await said('stream append demo/live three\n');
    await shows(follower, 'one\ntwo\nthree\n');
    assert.match(await said('stream append demo/live --close', 'end'), /3 B appended/);
    assert.equal(await within(follower.ended, PATIENCE_MS, 'the end of a closed stream'), 0, follower.stderr);
    assert.equal(follower.stdout, 'one\ntwo\nthree\nend');
    await fails(1, 'stream append demo/live more', /demo\/live: it answered 409 \(the stream is closed/);
    const other = startCtl(['stream', 'tail', '-f', 'demo/text', '-n', '1'], { env: env() });
    await shows(other, 'line 2999 ------------------------------------------------------------');
    other.interrupt();
    assert.equal(await within(other.ended, PATIENCE_MS, 'Ctrl-C'), 0);
  });
});

/** All that it has shown so far is this. */
async function shows(follower: CtlRun, text: string): Promise<void> {
  const shown = new Promise<void>((resolve) => {
    const look = (): void => {
      if (follower.stdout === text) resolve();
    };
    follower.output.on('data', look);
    look();
  });
  await within(shown, PATIENCE_MS, `${JSON.stringify(text)}, not ${JSON.stringify(follower.stdout)}`);
}
