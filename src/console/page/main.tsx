/** The page: what surrounds the views, and which one the address names. */
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Action } from '../model/actions.ts';
import { ActionDialog } from './action-dialog.tsx';
import { Api, kindOfPage } from './api.ts';
import { BackupsView } from './backups-view.tsx';
import { ClusterView } from './cluster-view.tsx';
import { type Desk, DeskContext, useDesk, useRounds } from './parts.tsx';
import { StreamsView } from './streams-view.tsx';
import { SubscriptionsView } from './subscriptions-view.tsx';
import { ThemeButton } from './theme.tsx';
import { TrafficView } from './traffic-view.tsx';
import { Watch } from './watch.ts';

const VIEWS = [
  ['cluster', 'Cluster', ClusterView],
  ['traffic', 'Traffic', TrafficView],
  ['streams', 'Streams', StreamsView],
  ['subscriptions', 'Subscriptions', SubscriptionsView],
  ['backups', 'Backups', BackupsView],
] as const;

/** `#/streams/demo/log` -> streams, demo, log. */
function wordsOfAddress(): string[] {
  const words = location.hash.replace(/^#\/?/, '').split('/');
  try {
    return words.map(decodeURIComponent);
  } catch {
    return [];
  }
}

interface Proposal {
  readonly action: Action;
  readonly done: (() => void) | undefined;
}

function Page({ watch }: { watch: Watch }) {
  const [words, setWords] = useState(wordsOfAddress);
  const [proposal, setProposal] = useState<Proposal>();
  useEffect(() => {
    const turn = (): void => setWords(wordsOfAddress());
    addEventListener('hashchange', turn);
    // The address may have changed since the first render; effects run later.
    turn();
    return () => removeEventListener('hashchange', turn);
  }, []);
  const desk: Desk = { watch, propose: (action, done) => setProposal({ action, done }) };
  return (
    <DeskContext.Provider value={desk}>
      <Frame desk={desk} words={words} />
      {proposal !== undefined && (
        <ActionDialog action={proposal.action} done={proposal.done} close={() => setProposal(undefined)} />
      )}
    </DeskContext.Provider>
  );
}

function Frame({ desk, words }: { desk: Desk; words: readonly string[] }) {
  useRounds(desk);
  const { watch } = desk;
  const [name = '', ...rest] = words;
  const [current, title, View] = VIEWS.find(([view]) => view === name) ?? VIEWS[0];
  const main = useRef<HTMLElement>(null);
  const shown = useRef(current);
  useEffect(() => {
    document.title = `${title} · Millrace ${watch.label}`;
    // A screen reader goes on in the new view; at the first one it begins at the top.
    if (shown.current !== current) main.current?.focus();
    shown.current = current;
  }, [current, title, watch.label]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        To the content
      </a>
      <header>
        <p class="brand">
          Millrace <span>{watch.label}</span>
        </p>
        <nav aria-label="Views">
          {VIEWS.map(([view, label]) => (
            <a key={view} href={`#/${view}`} aria-current={view === current ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <Health watch={watch} />
        <div class="tools">
          {watch.role !== undefined && watch.role !== 'destroy' && <span>role: {watch.role}</span>}
          {watch.api.hasToken && (
            <button type="button" onClick={() => (watch.api.forget(), location.reload())}>
              Forget token
            </button>
          )}
          <ThemeButton />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <h1>{title}</h1>
        {watch.problem !== undefined && <p class="note bad">{watch.problem}; trying again</p>}
        {watch.locked !== undefined ? (
          <Unlock reason={watch.locked} />
        ) : watch.round.length === 0 ? (
          <p>Asking the nodes …</p>
        ) : (
          <View words={rest} />
        )}
      </main>
    </>
  );
}

/** The state of the cluster in a word, on every view. */
function Health({ watch }: { watch: Watch }) {
  if (watch.locked !== undefined || watch.round.length === 0) return null;
  const found = watch.findings;
  const count = (wanted: string): number => found.filter(({ severity }) => severity === wanted).length;
  const [bad, warn] = [count('bad'), count('warn')];
  const kind = bad > 0 ? 'bad' : warn > 0 ? 'warn' : 'info';
  const many = (number: number, word: string): string => `${number} ${word}${number === 1 ? '' : 's'}`;
  const words = [...(bad > 0 ? [many(bad, 'fault')] : []), ...(warn > 0 ? [many(warn, 'warning')] : [])];
  return (
    <a class={`health ${kind}`} href="#/cluster" title={found[0]?.text ?? ''}>
      {words.length === 0 ? 'All is well' : words.join(', ')}
    </a>
  );
}

/** Asks for the token. It stays in this tab. */
function Unlock({ reason }: { reason: string }) {
  const { watch } = useDesk();
  const [token, setToken] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.trim() !== '') watch.unlock(token);
  };
  return (
    <form class="unlock" onSubmit={submit}>
      <p role="alert">{reason}</p>
      <label>
        {watch.kind === 'node' ? 'Admin token' : 'Key'}
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Open
      </button>
      <p class="hint">It is kept in this tab only, and gone when the tab is closed.</p>
    </form>
  );
}

const root = document.getElementById('app');
if (root !== null) {
  const kind = kindOfPage();
  const watch = new Watch(new Api(kind), kind);
  render(<Page watch={watch} />, root);
  void watch.run();
}
