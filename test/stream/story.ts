// Commands of the scenario files in test/scenarios/stream: one group, its clock, and what clients do to it.
//
//   create S [type=T] [body=B] [closed] [ttl=SECONDS] [expires=+MS] [attrs=JSON] [seq=S] [producer=ID/EPOCH/SEQ]
//   append S body=B ... [match=N]    close S ...    delete S    set-attrs S JSON    attrs S    head S
//   read S [offset=N|now|record=N|record=now|tail=N] [max_bytes=N] [max_records=N] [envelope]
//   touch S    expire    wait MS    delete-bucket B    list B [prefix=P] [after=A] [limit=N]    usage
//   flush    fail    restart    rows
//
// S is BUCKET/STREAM, or STREAM in bucket b. `json` and `text` abbreviate types. In bodies \s is a blank, \n a line
// break, and x*8000 is 8000 times x.
import assert from 'node:assert/strict';
import { READ_FLAG_ENVELOPE } from '../../src/protocol/queries/read.ts';
import {
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  READ_TAIL_RECORDS,
} from '../../src/protocol/read-fields.ts';
import type { Command } from '../raft/support/scenario.ts';
import type { ModelCommand, Outcome } from './model-command.ts';
import { Proposer } from './propose.ts';
import { plainCommand } from './random-commands.ts';
import { type Answer, Replica } from './replica.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';

const TYPES: Readonly<Record<string, string>> = { json: 'application/json', text: 'text/plain' };
const SHOWN_BYTES_MAX = 80;

export class Story {
  readonly replica = new Replica();
  #nowMs = 1_000_000;
  #index = 0;
  readonly #proposer = new Proposer();

  run({ name, words, options }: Command): readonly string[] {
    const [bucket, stream] = split(words[0] ?? '');
    switch (name) {
      case 'create':
      case 'append':
        return [this.#write(name, bucket, stream, words, options)];
      case 'close':
        return [this.#write('append', bucket, stream, [...words, 'closed'], options)];
      case 'delete':
      case 'touch':
        return [this.#propose({ ...plainCommand(this.#nowMs, bucket, stream), kind: name }, undefined)];
      case 'set-attrs':
        return [
          this.#propose({ ...plainCommand(this.#nowMs, bucket, stream), kind: 'attributes' }, unescape(words[1] ?? '')),
        ];
      case 'delete-bucket':
        return [this.#propose({ ...plainCommand(this.#nowMs, words[0] ?? '', ''), kind: name }, undefined)];
      case 'expire':
        return [this.#propose({ ...plainCommand(this.#nowMs, '', ''), kind: name }, undefined)];
      case 'wait':
        this.#nowMs += Number(words[0]);
        return [];
      default:
        return this.#look(name, bucket, stream, words, options);
    }
  }

  #look(
    name: string,
    bucket: string,
    stream: string,
    words: readonly string[],
    options: ReadonlyMap<string, string>,
  ): readonly string[] {
    switch (name) {
      case 'read':
        return [this.#read(bucket, stream, words, options)];
      case 'attrs':
        return [showAnswer(this.replica.askAttributes(bucket, stream, this.#nowMs))];
      case 'head': {
        const { outcome, shown } = this.replica.askHead(bucket, stream, this.#nowMs);
        if (shown === undefined) return [show(outcome)];
        const { ttlSeconds: ttl, expiresAtMs: expires, incarnation } = shown;
        return [
          `${show(outcome)} ttl=${ttl} expires=${expires < 0 ? expires : `+${expires - this.#nowMs}`} incarnation=${incarnation}`,
        ];
      }
      case 'list':
        return this.#list(words[0] ?? '', options);
      case 'usage':
        return this.replica.usage().map(showUsage);
      case 'rows':
        return [this.#rows()];
      case 'flush':
        this.replica.flush();
        return [];
      case 'fail':
        this.replica.flushInVain();
        return [];
      case 'restart':
        this.replica.restart(false);
        return [];
      default:
        return assert.fail(`unknown command ${name}`);
    }
  }

  #write(
    kind: 'create' | 'append',
    bucket: string,
    stream: string,
    words: readonly string[],
    options: ReadonlyMap<string, string>,
  ): string {
    const body = unescape(options.get('body') ?? '');
    const type = options.get('type') ?? (kind === 'append' && body !== '' ? 'text' : '');
    const producer = options.get('producer')?.split('/');
    const expires = options.get('expires');
    const command: ModelCommand = {
      ...plainCommand(this.#nowMs, bucket, stream),
      kind,
      close: words.includes('closed'),
      type: TYPES[type] ?? unescape(type),
      seq: options.get('seq'),
      producer: producer && { id: producer[0] ?? '', epoch: Number(producer[1]), seq: Number(producer[2]) },
      match: Number(options.get('match') ?? -1),
      ttl: Number(options.get('ttl') ?? -1),
      expires: expires === undefined ? -1 : this.#nowMs + Number(expires),
      body: new Uint8Array(Buffer.from(body)),
    };
    const attributes = options.get('attrs');
    return this.#propose(command, attributes === undefined ? undefined : unescape(attributes));
  }

  #propose(command: ModelCommand, attributes: string | undefined): string {
    const code = this.#proposer.add(command, attributes, false);
    if (code !== 'OK') return code;
    const [outcome] = this.replica.applyEntry(++this.#index, this.#proposer.finish());
    return show(outcome as Outcome);
  }

  #read(bucket: string, stream: string, words: readonly string[], options: ReadonlyMap<string, string>): string {
    const record = options.get('record');
    const tail = options.get('tail');
    let mode: number = READ_OFFSET;
    if (words.includes('now')) mode = READ_NOW;
    else if (record === 'now') mode = READ_RECORD_NOW;
    else if (record !== undefined) mode = READ_RECORD;
    else if (tail !== undefined) mode = READ_TAIL_RECORDS;
    const request = requestFor(QUERIES.read, 0, {
      ...{ bucket, stream, mode },
      value: Number(record === 'now' ? 0 : (record ?? tail ?? options.get('offset') ?? 0)),
      maxBytes: Number(options.get('max_bytes') ?? 0),
      maxRecords: Number(options.get('max_records') ?? 0),
      readFlags: words.includes('envelope') ? READ_FLAG_ENVELOPE : 0,
    });
    return showAnswer(this.replica.query(request, this.#nowMs));
  }

  #list(bucket: string, options: ReadonlyMap<string, string>): readonly string[] {
    const limit = Number(options.get('limit') ?? 1000);
    const listed = this.replica.list(
      bucket,
      options.get('prefix') ?? '',
      options.get('after') ?? '',
      limit,
      this.#nowMs,
    );
    if (listed.length === 0) return ['nothing'];
    return (listed as { stream_id: string; status: string; content_type: string; tail_offset: number }[]).map(
      (one) => `${one.stream_id} ${one.status} ${one.content_type} ${one.tail_offset}`,
    );
  }

  /** How many rows the store holds of each kind (keys.ts). */
  #rows(): string {
    const counts = new Map<string, number>();
    for (const [key] of this.replica.tx.entries()) counts.set(key[2] ?? '', (counts.get(key[2] ?? '') ?? 0) + 1);
    return [...counts].map(([tag, count]) => `${tag}:${count}`).join(' ');
  }
}

function split(name: string): [bucket: string, stream: string] {
  const at = name.indexOf('/');
  return at < 0 ? ['b', name] : [name.slice(0, at), name.slice(at + 1)];
}

function unescape(text: string): string {
  const times = /^(.)\*(\d+)$/.exec(text);
  if (times !== null) return (times[1] as string).repeat(Number(times[2]));
  const long = /^(.*)"(.)\*(\d+)"(.*)$/.exec(text);
  if (long !== null) return `${long[1]}"${(long[2] as string).repeat(Number(long[3]))}"${long[4]}`;
  return text.replaceAll('\\s', ' ').replaceAll('\\n', '\n');
}

function show(outcome: Outcome): string {
  const { code, next, start, flags, records, producer, type } = outcome;
  const parts = [code];
  if (start > 0) parts.push(`start=${start}`);
  if (next > 0 || code === 'OK') parts.push(`next=${next}`);
  parts.push(...flags);
  if (records !== '') {
    const [, from, to] = records.split('/');
    parts.push(`records=${from}..${to}`);
  }
  if (producer !== '') parts.push(`producer=${producer}`);
  if (type !== '') parts.push(`type=${type}`);
  return parts.join(' ');
}

function showAnswer({ outcome, body }: Answer): string {
  if (outcome.code !== 'OK') return show(outcome);
  const text = body.length > SHOWN_BYTES_MAX ? `<${body.length} bytes>` : body.toString().replaceAll('\n', '\\n');
  return `${show(outcome)} | ${text}`;
}

function showUsage(line: string): string {
  const [bucket, exists, bytes, records, units, retained, streams] = line.split(' ');
  const gone = exists === 'true' ? '' : ' (no such bucket now)';
  return `${bucket}${gone}: bytes=${bytes} records=${records} units=${units} | retained=${retained} streams=${streams}`;
}
