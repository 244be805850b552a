/** One stream: its facts, what it holds, and what may be done with it. */
import { useState } from 'preact/hooks';
import { formatBytes } from '../../nodes/findings.ts';
import { append, close, flush, remove, streamPath } from '../model/actions.ts';
import { formatNumber } from '../model/units.ts';
import { jsonOf } from './api.ts';
import { ContentView } from './content-view.tsx';
import { useLoad } from './load.ts';
import { ActionButton, Choice, Fact, Note, useDesk, useRole } from './parts.tsx';
import { type Facts, type Place, readFacts } from './reader.ts';

export interface StreamProps {
  readonly bucket: string;
  readonly stream: string;
}

export function StreamView({ bucket, stream }: StreamProps) {
  const { watch } = useDesk();
  const seesContent = useRole('operate');
  const appends = useRole('destroy');
  // The same node for the whole visit: another one may be a moment behind.
  const [node, setNode] = useState(watch.anyNode);
  const place: Place = { api: watch.api, node, bucket, stream };
  const { value, problem, again } = useLoad(`${node}/${bucket}/${stream}/${seesContent}`, async (signal) => {
    const facts = await readFacts(place, signal);
    if (!seesContent) return { facts, attributes: undefined };
    const answer = await watch.api.node(node, `${streamPath(bucket, stream)}/attrs`, { signal });
    return { facts, attributes: answer.status === 200 ? jsonOf(answer) : {} };
  });
  const asked = watch.nodes.filter(({ isAsked }) => isAsked);
  return (
    <section aria-labelledby="stream">
      <h2 id="stream">
        {bucket}/{stream}
      </h2>
      <div class="row">
        {asked.length > 1 && (
          <Choice
            label="Through"
            value={String(node)}
            options={asked.map(({ id }) => [String(id), `node ${id}`])}
            choose={(id) => setNode(Number(id))}
          />
        )}
        <button type="button" onClick={again}>
          Look again
        </button>
        <ActionButton action={flush(bucket, stream)} label="Flush" done={again} />
        {value?.facts.isClosed === false && <ActionButton action={close(bucket, stream)} label="Close" done={again} />}
        <ActionButton action={remove(bucket, stream)} label="Delete" done={again} />
      </div>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      {value !== undefined && problem === undefined && (
        <>
          <FactList facts={value.facts} attributes={value.attributes} />
          {seesContent && <ContentView key={node} place={place} facts={value.facts} />}
          {watch.role === 'observe' && (
            <Note kind="info">Its content and attributes take a token with the role operate.</Note>
          )}
          {appends && !value.facts.isClosed && (
            <AppendForm bucket={bucket} stream={stream} facts={value.facts} done={again} />
          )}
        </>
      )}
    </section>
  );
}

/** Headers of HEAD that are shown as they are. */
const LIFETIME = ['stream-ttl', 'stream-expires-at'];

function FactList({ facts, attributes }: { facts: Facts; attributes: unknown }) {
  const { contentType, tail, floor, records, isClosed, header } = facts;
  const hotStart = header('stream-cold-hot-start-offset');
  const cold = hotStart === null ? 0 : Math.max(0, Number(hotStart) - floor);
  const snapshot = header('stream-snapshot-offset');
  const lifetime = LIFETIME.flatMap((name) => (header(name) === null ? [] : [`${name.slice(7)} ${header(name)}`]));
  return (
    <dl class="facts">
      <Fact name="Type">{contentType}</Fact>
      <Fact name="State">{isClosed ? 'closed' : 'open'}</Fact>
      <Fact name="Offsets">
        {formatNumber(floor)} to {formatNumber(tail)} ({formatBytes(tail - floor)})
      </Fact>
      {records !== undefined && (
        <Fact name="Records">
          {formatNumber(records.first)} to {formatNumber(records.next)}
        </Fact>
      )}
      <Fact name="Hot and cold">
        {formatBytes(tail - floor - cold)} on the nodes, {formatBytes(cold)} in the cold store
      </Fact>
      <Fact name="Lifetime">{lifetime.length === 0 ? 'no end' : lifetime.join(', ')}</Fact>
      <Fact name="Retention floor">{floor === 0 ? 'none' : formatNumber(floor)}</Fact>
      <Fact name="Snapshot">{snapshot === null ? 'none' : `at ${Number(snapshot)}`}</Fact>
      {attributes !== undefined && (
        <Fact name="Attributes">
          <code>{JSON.stringify(attributes)}</code>
        </Fact>
      )}
    </dl>
  );
}

interface AppendProps extends StreamProps {
  readonly facts: Facts;
  readonly done: () => void;
}

function AppendForm({ bucket, stream, facts: { contentType, records }, done }: AppendProps) {
  const [body, setBody] = useState('');
  const finish = (): void => {
    setBody('');
    done();
  };
  return (
    <details>
      <summary>Append</summary>
      <form onSubmit={(event) => event.preventDefault()}>
        <label>
          {records === undefined ? 'Text' : 'One JSON value, or an array of values'}
          <textarea rows={4} value={body} spellcheck={false} onInput={(event) => setBody(event.currentTarget.value)} />
        </label>
        {body !== '' && (
          <ActionButton action={append(bucket, stream, contentType, body)} label="Append" done={finish} />
        )}
      </form>
    </details>
  );
}
