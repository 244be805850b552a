/** Buckets, then the streams of one, then one stream: by the address. */
import { useState } from 'preact/hooks';
import { formatBytes } from '../../nodes/findings.ts';
import { create, purge } from '../model/actions.ts';
import {
  type BucketOrder,
  type ListedPage,
  type StreamRow,
  bucketsOf,
  quotaOf,
  sortedBuckets,
  streamsOf,
} from '../model/listings.ts';
import { formatNumber, formatTime } from '../model/units.ts';
import { type PageAnswer, NoAnswer, jsonOf, sentenceOf, sound, textOf } from './api.ts';
import { useLoad } from './load.ts';
import { ActionButton, Note, PageButtons, Table, useDesk, useRole } from './parts.tsx';
import { StreamView } from './stream-view.tsx';

/** Some ten thousand buckets; the page says when there are more. */
const USAGE_BYTES_MAX = 1024 * 1024;
const BUCKETS_MAX = 500;
const PAGE_STREAMS = 100;
const BUCKET_COLUMNS: readonly (readonly [BucketOrder, string])[] = [
  ['name', 'Bucket'],
  ['streams', 'Streams'],
  ['retainedBytes', 'Retained'],
  ['appendedBytes', 'Appended'],
  ['records', 'Records'],
];

export function addressOf(...words: readonly string[]): string {
  return `#/streams${words.map((word) => `/${encodeURIComponent(word)}`).join('')}`;
}

export function StreamsView({ words }: { words: readonly string[] }) {
  const [bucket, stream] = words;
  return (
    <>
      <nav class="trail" aria-label="Where">
        <a href={addressOf()}>buckets</a>
        {bucket !== undefined && bucket !== '' && <a href={addressOf(bucket)}>{bucket}</a>}
        {stream !== undefined && <span>{stream}</span>}
      </nav>
      {bucket === undefined || bucket === '' ? (
        <Buckets />
      ) : stream === undefined ? (
        <Streams key={bucket} bucket={bucket} />
      ) : (
        <StreamView key={`${bucket}/${stream}`} bucket={bucket} stream={stream} />
      )}
    </>
  );
}

function good(answer: PageAnswer): PageAnswer {
  if (answer.status !== 200) throw new NoAnswer(sentenceOf(answer));
  return answer;
}

function Buckets() {
  const { watch } = useDesk();
  const [wanted, setWanted] = useState('');
  const { value, problem, isLoading, again } = useLoad('buckets', async (signal) => {
    const answer = good(await watch.api.node(watch.anyNode, '/__svc/usage', { bytesMax: USAGE_BYTES_MAX, signal }));
    return { buckets: bucketsOf(textOf(answer)), isCut: answer.isCut };
  });
  const [order, setOrder] = useState<BucketOrder>('name');
  const fitting = sortedBuckets(value?.buckets ?? [], order).filter(({ name }) => name.includes(wanted));
  const open = (event: Event): void => {
    event.preventDefault();
    if (wanted !== '') location.hash = addressOf(wanted);
  };
  return (
    <section aria-labelledby="buckets">
      <h2 id="buckets">Buckets</h2>
      <form class="row" onSubmit={open}>
        <label>
          Name
          <input value={wanted} spellcheck={false} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
        <button type="submit">Open</button>
        <button type="button" onClick={again}>
          Look again
        </button>
      </form>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      {value?.isCut === true && (
        <Note kind="warn">There are more buckets than this page lists; open others by name.</Note>
      )}
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="buckets">
        <table>
          <thead>
            <tr>
              {BUCKET_COLUMNS.map(([column, title]) => (
                <th
                  key={column}
                  scope="col"
                  aria-sort={column !== order ? undefined : column === 'name' ? 'ascending' : 'descending'}
                >
                  <button type="button" onClick={() => setOrder(column)}>
                    {title}
                    {column === order && (column === 'name' ? ' ↑' : ' ↓')}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {fitting.slice(0, BUCKETS_MAX).map(({ name, streams, retainedBytes, appendedBytes, records }) => (
              <tr key={name}>
                <th scope="row">
                  <a href={addressOf(name)}>{name}</a>
                </th>
                <td class="number">{formatNumber(streams)}</td>
                <td class="number">{formatBytes(retainedBytes)}</td>
                <td class="number">{formatBytes(appendedBytes)}</td>
                <td class="number">{formatNumber(records)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fitting.length > BUCKETS_MAX && (
        <p class="hint">and {fitting.length - BUCKETS_MAX} more: type a part of the name</p>
      )}
      {!isLoading && fitting.length === 0 && problem === undefined && (
        <p>
          {wanted === ''
            ? 'There is no bucket yet: the first stream makes one.'
            : `No bucket has “${wanted}” in its name.`}
        </p>
      )}
    </section>
  );
}

function Streams({ bucket }: { bucket: string }) {
  const { watch } = useDesk();
  const [prefix, setPrefix] = useState('');
  /** Where the pages before this one began. */
  const [starts, setStarts] = useState<readonly string[]>(['']);
  const after = starts.at(-1) ?? '';
  const query = `prefix=${encodeURIComponent(prefix)}&after=${encodeURIComponent(after)}&limit=${PAGE_STREAMS}`;
  const path = `/__svc/streams/${encodeURIComponent(bucket)}/streams?${query}`;
  const { value, problem, isLoading, again } = useLoad(path, async (signal): Promise<ListedPage<StreamRow>> => {
    const answer = await watch.api.node(watch.anyNode, path, { signal });
    return answer.status === 404 ? { rows: [], next: undefined } : sound(streamsOf(jsonOf(good(answer))));
  });
  return (
    <section aria-labelledby="streams">
      <h2 id="streams">Streams of {bucket}</h2>
      <form class="row" onSubmit={(event) => event.preventDefault()}>
        <label>
          Prefix
          <input
            value={prefix}
            spellcheck={false}
            onInput={(event) => (setPrefix(event.currentTarget.value), setStarts(['']))}
          />
        </label>
        <button type="button" onClick={again}>
          Look again
        </button>
        <ActionButton action={purge(bucket)} label="Purge bucket" done={again} />
      </form>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      <Quota bucket={bucket} />
      <StreamTable bucket={bucket} page={value} isLoading={isLoading} />
      <p class="buttons">
        <PageButtons starts={starts} next={value?.next} show={setStarts} />
      </p>
      {useRole('operate') && <CreateForm bucket={bucket} done={again} />}
    </section>
  );
}

/** The use of a bucket, beside its bounds. */
function Quota({ bucket }: { bucket: string }) {
  const { watch } = useDesk();
  const path = `/__svc/quota/${encodeURIComponent(bucket)}`;
  const { value, problem } = useLoad(path, async (signal) =>
    sound(quotaOf(jsonOf(good(await watch.api.node(watch.anyNode, path, { signal }))))),
  );
  if (value === undefined) return problem === undefined ? null : <p class="hint">Its quota is not known: {problem}</p>;
  const { streams, streamsMax, bytes, bytesMax } = value;
  return (
    <p class="hint">
      {formatNumber(streams)} {streamsMax === undefined ? 'streams' : `of ${formatNumber(streamsMax)} streams`},{' '}
      {formatBytes(bytes)}
      {bytesMax === undefined ? '' : ` of ${formatBytes(bytesMax)}`}
      {streamsMax === undefined && bytesMax === undefined && '; no quota'}
    </p>
  );
}

interface StreamTableProps {
  readonly bucket: string;
  readonly page: ListedPage<StreamRow> | undefined;
  readonly isLoading: boolean;
}

function StreamTable({ bucket, page, isLoading }: StreamTableProps) {
  if (page === undefined) return <p>{isLoading ? 'Asking …' : ''}</p>;
  if (page.rows.length === 0) return <p>No streams here.</p>;
  return (
    <Table label="streams" columns={['Stream', 'Type', 'Tail', 'State', 'Created', 'Last write']}>
      {page.rows.map(({ name, contentType, tail, isClosed, createdMs, writtenMs }) => (
        <tr key={name}>
          <th scope="row">
            <a href={addressOf(bucket, name)}>{name}</a>
          </th>
          <td>{contentType}</td>
          <td class="number">{formatBytes(tail)}</td>
          <td>{isClosed ? 'closed' : 'open'}</td>
          <td>{formatTime(createdMs)}</td>
          <td>{formatTime(writtenMs)}</td>
        </tr>
      ))}
    </Table>
  );
}

function CreateForm({ bucket, done }: { bucket: string; done: () => void }) {
  const [name, setName] = useState('');
  const [type, setType] = useState('application/json');
  return (
    <details>
      <summary>Create a stream</summary>
      <form class="row" onSubmit={(event) => event.preventDefault()}>
        <label>
          Stream
          <input value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label>
          Content type
          <input value={type} list="types" spellcheck={false} onInput={(event) => setType(event.currentTarget.value)} />
        </label>
        <datalist id="types">
          {['application/json', 'text/plain', 'application/octet-stream'].map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        {name !== '' && type !== '' && <ActionButton action={create(bucket, name, type)} label="Create" done={done} />}
      </form>
    </details>
  );
}
