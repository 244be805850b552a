/** Shows a stream page by page from either end, or as it grows. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { caughtMessage } from '../../base/caught.ts';
import { type Form, type Line, indented, matching } from '../model/content.ts';
import { formatNumber } from '../model/units.ts';
import { Choice, Note } from './parts.tsx';
import { type Facts, type Page, type Place, emptyPage, ends, pageSize, readNext, readPage } from './reader.ts';

/** Lines of a live tail that stay in the page. */
const TAIL_LINES_MAX = 1000;
/** Length of a long record's first line. */
const SUMMARY_CHARS = 160;
/** So close to its end the page follows what comes. */
const NEAR_END_PX = 80;
/** After a request that failed. */
const AGAIN_MS = 2000;

const FORMS = [
  ['json', 'JSON records'],
  ['text', 'text'],
  ['hex', 'hex'],
] as const;

/** The view shows a page from an offset on, or follows the tail. */
interface Where {
  readonly from: number;
  readonly mode: 'page' | 'tail';
}

interface ContentProps {
  readonly place: Place;
  readonly facts: Facts;
}

export function ContentView({ place, facts }: ContentProps) {
  const [form, setForm] = useState<Form | undefined>(facts.records === undefined ? undefined : 'json');
  const { first, last, end } = ends(facts);
  const [where, setWhere] = useState<Where>({ from: last, mode: 'page' });
  const [search, setSearch] = useState('');
  const { page, problem } = useContent({ place, facts, form: form ?? 'text', where });
  // A binary stream is shown as such until the reader asks for text.
  useEffect(() => {
    if (form === undefined && page?.isBinary === true) setForm('hex');
  }, [form, page]);
  const size = pageSize(facts);
  const go = (from: number): void => setWhere({ from: Math.max(first, Math.min(from, last)), mode: 'page' });
  const to = page?.to ?? where.from;
  const shown = matching(page?.lines ?? [], search);
  const isTail = where.mode === 'tail';
  return (
    <section class="content" aria-label="Content">
      <div class="row">
        <div class="buttons" role="group" aria-label="Where">
          <button type="button" disabled={isTail || where.from <= first} onClick={() => go(first)}>
            Start
          </button>
          <button type="button" disabled={isTail || where.from <= first} onClick={() => go(where.from - size)}>
            Earlier
          </button>
          <button type="button" disabled={isTail || to >= end} onClick={() => setWhere({ from: to, mode: 'page' })}>
            Later
          </button>
          <button type="button" disabled={isTail || to >= end} onClick={() => go(last)}>
            End
          </button>
          <button
            type="button"
            aria-pressed={isTail}
            disabled={facts.isClosed}
            onClick={() => setWhere(isTail ? { from: last, mode: 'page' } : { from: end, mode: 'tail' })}
          >
            Live tail
          </button>
        </div>
        <Choice
          label="As"
          value={form ?? 'text'}
          options={facts.records === undefined ? FORMS.slice(1) : FORMS}
          choose={(value) => setForm(formOf(value))}
        />
        <label>
          Search in what is shown
          <input
            type="search"
            value={search}
            spellcheck={false}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
        </label>
      </div>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      {page?.isCut === true && <Note kind="warn">This is longer than the page takes; its beginning is shown.</Note>}
      <p class="hint" role="status">
        {isTail
          ? `Waiting for what is appended; ${page?.lines.length ?? 0} lines came`
          : `${facts.records === undefined ? 'Bytes' : 'Records'} ${formatNumber(where.from)} to ${formatNumber(to)} of ${formatNumber(end)}`}
        {search !== '' && `; ${shown.length} of ${page?.lines.length ?? 0} lines hold the text`}
      </p>
      <Lines lines={shown} form={form ?? 'text'} isTail={isTail} />
    </section>
  );
}

function formOf(value: string): Form {
  return value === 'json' || value === 'hex' ? value : 'text';
}

/** The first line of a long record. */
function shortened(text: string): string {
  return text.length <= SUMMARY_CHARS ? text : `${text.slice(0, SUMMARY_CHARS - 1)}…`;
}

interface LinesProps {
  readonly lines: readonly Line[];
  readonly form: Form;
  /** The last line stays in sight, unless the reader has scrolled away from it. */
  readonly isTail: boolean;
}

function Lines({ lines, form, isTail }: LinesProps) {
  const list = useRef<HTMLOListElement>(null);
  const before = list.current;
  // Before these lines are there: an event of scrolling would come too late.
  const isAtEnd = before === null || before.scrollTop + before.clientHeight >= before.scrollHeight - NEAR_END_PX;
  useLayoutEffect(() => {
    if (isTail && isAtEnd) list.current?.scrollTo({ top: list.current.scrollHeight });
  }, [isTail, lines]);
  return (
    <ol ref={list} class={`lines ${form}`} tabIndex={0} aria-label="Lines">
      {lines.map(({ at, text }, i) => (
        <li key={`${at}/${i}`}>
          <span class="at">{at}</span>
          {form === 'json' && text.length > 80 ? (
            <details>
              <summary>{shortened(text)}</summary>
              <pre>{indented(text)}</pre>
            </details>
          ) : (
            <pre>{text}</pre>
          )}
        </li>
      ))}
    </ol>
  );
}

interface Wanted extends ContentProps {
  readonly form: Form;
  readonly where: Where;
}

interface Content {
  readonly page: Page | undefined;
  readonly problem: string | undefined;
}

function useContent({ place, facts, form, where: { from, mode } }: Wanted): Content {
  const [content, setContent] = useState<Content>({ page: undefined, problem: undefined });
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    const show = (next: Content): void => {
      if (!signal.aborted) setContent(next);
    };
    if (mode === 'tail') void follow({ place, facts, form, from, signal, show });
    else {
      readPage(place, facts, from, form, signal).then(
        (page) => show({ page, problem: undefined }),
        (error: unknown) => show({ page: undefined, problem: caughtMessage(error) }),
      );
    }
    return () => ended.abort();
    // Facts that are asked for again begin the page or the tail again.
  }, [place.node, facts, form, from, mode]);
  return content;
}

interface Following extends ContentProps {
  readonly form: Form;
  readonly from: number;
  readonly signal: AbortSignal;
  readonly show: (content: Content) => void;
}

/** Until the signal, or the stream's end. What fails is said and tried again. */
async function follow({ place, facts, form, from, signal, show }: Following): Promise<void> {
  let page = emptyPage(from);
  show({ page, problem: undefined });
  while (!signal.aborted) {
    try {
      const next = await readNext(place, facts, page.to, form, signal);
      const lines = [...page.lines, ...next.lines].slice(-TAIL_LINES_MAX);
      page = { ...next, from, lines, isCut: page.isCut || next.isCut };
      show({ page, problem: undefined });
      if (next.isClosed) return;
    } catch (error) {
      if (signal.aborted) return;
      const what = caughtMessage(error);
      show({ page, problem: `${what}; trying again` });
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}
