/**
 * The one way to change something from the page: says what will happen, shows the line
 * of the tool, and what came of it.
 */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { caughtMessage } from '../../base/caught.ts';
import { isObject } from '../../nodes/report.ts';
import type { Action } from '../model/actions.ts';
import { type PageAnswer, NoAnswer, jsonOf, sentenceOf, textOf } from './api.ts';
import { Note, useDesk } from './parts.tsx';

/** Longer than a node waits for a majority. */
const TIMEOUT_MS = 30_000;
/** A purge goes through all streams of a bucket. */
const LONG_MS = 600_000;
/** `millracectl console` answers this when the node did not answer, or not to the end. */
const LOST = 502;
/** Leaders may move while they are asked. */
const LEADERS_MAX = 4;
const SHOWN_CHARS_MAX = 400;

type Phase =
  | { readonly is: 'asking' }
  | { readonly is: 'running' }
  | { readonly is: 'done' | 'failed'; readonly text: string };

export interface ActionDialogProps {
  readonly action: Action;
  readonly done: (() => void) | undefined;
  readonly close: () => void;
}

export function ActionDialog({ action, done, close }: ActionDialogProps) {
  const { watch } = useDesk();
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [phase, setPhase] = useState<Phase>({ is: 'asking' });
  const title = useId();
  useEffect(() => dialog.current?.showModal(), []);
  const isTyped = action.confirm === undefined || typed === action.confirm;
  const run = async (): Promise<void> => {
    setPhase({ is: 'running' });
    try {
      const answer = await perform(watch, action);
      if (answer.status === LOST) throw new NoAnswer(sentenceOf(answer));
      if (answer.status >= 400) return setPhase({ is: 'failed', text: sentenceOf(answer) });
      setPhase({ is: 'done', text: textOf(answer).trim().slice(0, SHOWN_CHARS_MAX) });
      done?.();
      await watch.look();
    } catch (error) {
      const text = `${caughtMessage(error)}. Whether it was done is not known: look before you repeat it.`;
      setPhase({ is: 'failed', text });
    }
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isTyped && phase.is === 'asking') void run();
  };
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby={title}>
      <form onSubmit={submit}>
        <h2 id={title}>{action.title}</h2>
        <p>{action.about}</p>
        {action.warning !== undefined && <Note kind="warn">{action.warning}</Note>}
        <p class="command">
          <span>In a terminal:</span>
          <code>{action.command}</code>
        </p>
        {action.confirm !== undefined && phase.is === 'asking' && (
          <label>
            Type <strong>{action.confirm}</strong> to go on
            <input
              value={typed}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        <div role="status" aria-live="polite">
          <Outcome phase={phase} />
        </div>
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            {phase.is === 'asking' ? 'Cancel' : 'Close'}
          </button>
          {phase.is === 'asking' && (
            <button type="submit" class={action.isFinal === true ? 'final' : 'main'} disabled={!isTyped}>
              {action.title}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

function Outcome({ phase }: { phase: Phase }) {
  switch (phase.is) {
    case 'asking':
      return null;
    case 'running':
      return <p>Under way …</p>;
    case 'done':
      return <p class="note info">Done. {phase.text}</p>;
    case 'failed':
      return <p class="note bad">{phase.text}</p>;
  }
}

/** Through the node that it names, or any; where only a leader can, through the one that a refusal names. */
async function perform(
  { api, anyNode, nodes }: ReturnType<typeof useDesk>['watch'],
  action: Action,
): Promise<PageAnswer> {
  const { method, path, headers = {}, body } = action;
  let node = action.node ?? anyNode;
  for (let attempt = 1; ; attempt++) {
    const answer = await api.node(node, path, {
      method,
      headers,
      timeoutMs: action.takesLong === true ? LONG_MS : TIMEOUT_MS,
      ...(body === undefined ? {} : { body }),
    });
    const json = answer.status === 409 ? jsonOf(answer) : undefined;
    const leader = isObject(json) ? json['current_leader'] : undefined;
    const isOther =
      typeof leader === 'number' && leader !== node && nodes.some(({ id, isAsked }) => id === leader && isAsked);
    if (action.node !== undefined || !isOther || attempt === LEADERS_MAX) return answer;
    node = leader;
  }
}
