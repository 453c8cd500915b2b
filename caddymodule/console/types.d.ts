// The types of the page's modules, for the checker alone. Browsers never get this file.

type Child = Node | string | number | null | undefined | false
type Children = (Child | Child[])[]
type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement
/** Choice is an option of a select. */
type Choice = { value: string, text: string }
type Properties = Record<string, unknown>

/** The element that a name of h makes. What follows a dot is a class. */
type ElementOf<Name extends string> = Name extends `${infer Tag}.${string}` ? ElementOf<Tag> : Name extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Name] : HTMLElement

type ViewName = 'presets' | 'workspaces' | 'state' | 'workspace-history' | 'workspace-usage' | 'workspace-keys' | 'workspace-budgets' | 'usage' | 'versions' | 'compare' | 'labels' | 'use' | 'history' | 'edit' | 'unknown'
type Address = { view: ViewName, workspace: string, slug: string, version: number, from: number, to: number, query: URLSearchParams }
type Query = Record<string, string | number | undefined>
/** At names a preset in its workspace. */
type At = { workspace: string, slug: string }

/** Context is what a view gets. Its signal ends when another view takes its place. */
type Context = { address: Address, workspace: string, at: At, signal: AbortSignal, setGuard: (isDirty: () => boolean) => void }
type View = { title: string, element: Node }
type MakeView = (context: Context) => View
type Draw = (answer: Answer<any>) => Child | Child[]
type LiveOptions = { lines?: number, onFailure?: (failure: Failure, again: () => unknown) => Node | undefined | Promise<Node | undefined> }
/** Explain shows a failure in other words than the server's, or not. */
type Explain = (failure: Failure) => Node | undefined
/** Live is content that looks again. */
type Live = { element: HTMLElement, answer: () => Answer<any> | undefined, redraw: () => void, show: (path: string) => void }
type MakeLive = (context: Context, path: string, draw: Draw, options?: LiveOptions) => Live
type MakePages = (offset: number, limit: number, total: number, go: (offset: number) => void) => HTMLElement
type MakePagedList = (context: Context, limit: number, path: (offset: number) => string, draw: (answer: Answer<any>) => Child) => HTMLElement
type Attempt = (place: Element, pressed: HTMLButtonElement, run: () => Promise<unknown>, explain?: Explain) => Promise<boolean>
type SendChange = (method: string, path: string, body: string | object | undefined, tag?: string) => Promise<Answer<any>>
type OpenDialog = (name: string, heading: string, body: Child[], options?: DialogOptions) => { dialog: HTMLDialogElement, close: () => void }
type AskInDialog = (context: Context, name: string, heading: string, body: Child[], run: () => Promise<unknown>, options?: AskOptions) => { close: () => void, confirm: HTMLButtonElement }
type AskFirst = (context: Context, preset: PresetAnswer, name: string, heading: string, body: Child[], run: (seen: PresetAnswer) => Promise<unknown>, options: AskOptions) => void
type MakeFrame = (context: Context, tab: string, title: string, make: (preset: PresetAnswer, select: (ref: string) => void) => PresetBody, makeMissing?: () => PresetBody) => View
type ExplainConflict = (failure: Failure, path: string, before: Answer<any>, lookedAgain: (now: Answer<any>) => unknown) => HTMLElement | undefined
type DialogOptions = { actions?: HTMLButtonElement[], style?: string, onClose?: () => void, signal?: AbortSignal, submit?: () => unknown, isDisposable?: boolean, mayClose?: () => boolean }
type AskOptions = { confirm?: string, isDanger?: boolean, isWide?: boolean, explain?: Explain, onClose?: () => void, isDisposable?: boolean }
/** RequestOptions of a request to the API. Its key is that of the session, unless given. */
type RequestOptions = { key?: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal }
type ShareFields = { version: HTMLSelectElement, percent: HTMLInputElement, element: HTMLElement }
type Variable = { element: HTMLElement, kind: HTMLSelectElement, text: HTMLTextAreaElement }
/** Trial is what someone typed to try a version. */
type Trial = { turns: Turn[], variables: Record<string, { kind: string, text: string }>, second: string, dialect: string, more: string }
/** Logged is a line of the log of content: what to type to ask the same, and its answer. */
type Logged = { trial: Partial<Trial>, answer: string }
/** Turn is what one side said. A tool's says the result of the call that it has the id and the name of. */
type Turn = { role: string, text: string, calls?: ToolCall[], id?: string, name?: string }
type ToolCall = { id: string, name: string, arguments: string }
/** Draft is what the left of the workbench has. It is changed if it differs from its version, and has a problem if it cannot be sent. */
type Draft = {
	isChanged: () => boolean, ref: () => string, dialect: () => Dialect, template: () => Template, isTemplate: () => boolean, body: () => string, problem: () => string, keyChanged: () => void,
	/** Tells one state of the left from another. */
	state: () => string,
	setGuard: (guard: () => boolean) => void,
}
type MakeTrial = (context: Context, preset: PresetAnswer | undefined, draft: Draft) => {
	element: HTMLElement, inputs: HTMLElement, read: () => Trial, show: (trial: Partial<Trial>) => void, run: () => Promise<void>, refresh: () => void, showAge: () => void, update: (preset: PresetAnswer) => void,
}
/** Input is one that is saved with a preset. Its messages are those of its dialect. */
type Input = { id: string, name: string, dialect: Dialect, messages: any[] | null, input: any[] | string | null, variables: Record<string, any> | null, notes: string | null }
type Used = { input: number, output: number, cost: number }
/** Result is an answer as far as it has come. Times are in milliseconds, and 0 until they are known. */
type Result = {
	text: string, calls: ToolCall[], served: string, enforced: string, requestId: string, state: string, firstText: number, total: number, used: Partial<Used>, cost: number | null,
	isEstimated: boolean, hasContent: boolean, isStreamed: boolean, raw: string, notes: string[], failure?: Failure,
}
type TrialRequest = RequestOptions & { at?: At }
type RunRequest = (path: string, request: TrialRequest, heard: (result: Result, piece?: Piece) => void) => Promise<Result>
type ShowAnswer = (place: HTMLElement, name: string, path: string, request: TrialRequest, goOn: (result: Result, results: string[]) => void) => Promise<Result | undefined>
/** Model is one of the gateway's list. Prices are of a token, and NaN if they are not known. */
type Model = { id: string, context: number, input: number, output: number }
type StoreState = {
	store: string, current: boolean, available: boolean, writable: boolean, damaged: boolean, error: string, last_backup: string | null, last_copy: string | null,
	details: { free_bytes?: number, needed_bytes?: number, damage?: number } | null, nodes: { name: string }[] | null,
}
type ServerState = {
	version: string, stores: StoreState[], webhooks: { host: string, waiting: number, last_delivery: string | null, last_failure: string | null }[],
	usage: { measured: boolean, overflowed: number, lost: number },
}
/** Suggestion is a choice below a field. */
type Suggestion = { text: string, about?: string, run?: () => unknown }
/** Colour splits a line into texts, and texts with a class. */
type Colour = (line: string) => (string | [string, string])[]
type TextEditor = {
	area: HTMLTextAreaElement, search: HTMLElement, find: () => void, takeFrom: (place: Element) => void, setNotes: (notes: Problem[]) => void, setValue: (text: string) => void,
	setColoured: (is: boolean) => void, showLine: (line: number) => void,
}
type MakeTextEditor = (value: string, colour: Colour | undefined, changed: () => void) => TextEditor
/** Template is what a request for a target must and may have: values for variables, and messages. */
type Template = { names: string[], hasMessages: boolean }
/** Piece is what an event adds to a part of an answer. Parts without a name are text. isWhole is true if the text is all of the part, which may be there already. */
type Piece = { part: string, name: string, text: string, isWhole: boolean, call?: { id: string, name: string } }
/** PresetBody is the part of a view below a preset's header. */
type PresetBody = { element: Node, actions?: Child[], update?: (preset: PresetAnswer) => void }

type MakeBody = (context: Context, preset: PresetAnswer) => PresetBody
/** MakeSelectingBody makes a body that tells which version or label it is about. */
type MakeSelectingBody = (context: Context, preset: PresetAnswer, select: (ref: string) => void) => PresetBody

/** Answer is a successful answer of the API. Its text is the JSON as it came. */
type Answer<T> = { text: string, data: T, total: number, tag: string, headers: Headers }
type PresetAnswer = Answer<Preset>
type Failure = Error & { status: number, isOffline: boolean, issues: Issue[], requestId: string, retryAfter: string }
type Issue = { path: string, message: string }

type Dialect = 'responses' | 'chat' | 'messages'
type Share = { version: number, weight: number }
type Target = { version?: number | null, split?: Share[], protected?: boolean }
type Version = {
	version: number, creator_id: string, created_at: string, system_prompt: string | null, message: string | null, dialect: Dialect,
	designated: boolean, labels: string[], system_prompt_bytes: number, config_bytes: number,
	template_bytes: number,
}
/** Guarded is what decides who may change a preset. */
type Guarded = Pick<Preset, 'protected' | 'managed_by' | 'labels'>
type Preset = {
	id: string, workspace_id: string, name: string, slug: string, description: string | null, status: 'active' | 'disabled' | 'archived', creator_user_id: string,
	updated_at: string, created_at: string, labels: Record<string, Target>, designated_version_id: string, designated_version_number: number, updated_by: string,
	designated_version: Version, protected: boolean, policy: object | null, managed_by: string | null, tags?: string[], model?: string | null, limits?: Record<string, number> | null,
}
type Workspace = {
	id: string, name: string, slug: string, description: string | null, default_text_model: string | null, default_image_model: string | null,
	default_provider_sort: string | null, disabled_server_tools: string[] | null, limits?: Limits | null, budgets?: object | null, created_at: string, updated_at: string | null,
}
type Limits = Partial<Record<'requests_per_minute' | 'tokens_per_minute' | 'requests_per_day' | 'tokens_per_day' | 'concurrent', number>>
/** KeyFigures are what a key shows to its holder. Amounts are in US dollars. */
type KeyFigures = {
	label: string, limit: number | null, limit_remaining: number | null, limit_reset: 'daily' | 'weekly' | 'monthly' | null, limits: Limits | null,
	usage: number, usage_daily: number, usage_weekly: number, usage_monthly: number, expires_at: string | null,
}
type Key = KeyFigures & {
	hash: string, id: string, name: string, disabled: boolean, workspace_id: string, creator_user_id: string | null,
	presets: string[] | null, preset_required: boolean, models: string[] | null, last_used_at: string | null, grace_ends_at: string | null,
}
/** Budget is of a lifetime if its interval is null. */
type Budget = { limit_usd: number, reset_interval: 'daily' | 'weekly' | 'monthly' | null, spend_usd?: number }
type Change = {
	number: number, time: string, operation: string, user_id: string, key_id: string, key_name?: string | null, version_before?: number | null,
	version?: number | null, label?: string | null, message?: string | null, draft: boolean, split?: string | null, status?: string | null, protection?: 'set' | 'cleared' | null, managed_by?: string | null, override?: string | null, request_id: string, slug?: string | null,
	name?: string | null, input_id?: string | null, changed_key_id?: string | null, changes?: { field: string, from?: unknown, to?: unknown }[],
}
type LabelChange = { number: number, time: string, user_id: string, from: Target | null, to: Target | null }
type PresetLabel = Target & { label: string, history: LabelChange[], history_count: number }
type DryRun = { method: string, path: string, body: string, fields: Record<string, { from: string, version: number | null }>, dropped: string[], enforced: string[] }

/** JSONValue is a value with its place in a JSON text. */
type JSONValue = { kind: 'object' | 'array' | 'string' | 'number' | 'literal', text: string, start: number, end: number, members: JSONMember[], items: JSONValue[] }
/** A member has its name as it is in the text, as its key. */
type JSONMember = { name: string, key: string, start: number, value: JSONValue }

/** Block is a run of items that are the same in both lists, or that differ. */
type Block = { same: boolean, a0: number, a1: number, b0: number, b1: number }
type Part = { text: string, isChanged: boolean }
/** Setting is one difference of settings. A value is empty if it is absent. */
type Setting = { path: string, before: string, after: string }
/** Side is a version to compare. Its settings and its template are JSON text. */
type Side = { name: string, prompt: string | null, settings: string, template: string }
type Row = { a: number, b: number, isSame: boolean, folded: number }
/** Problem is an error of a version that is being written. */
type Problem = { field: 'Prompt' | 'Settings' | 'Messages', line: number, message: string, isWarning?: boolean }

/** Rate is a share of n. Score is the mean of scores from -1 to 1. */
type Rate = { rate: number, n: number }
type Score = { count: number, mean: number }
type Interval = { low: number, high: number }
/** Verdict is what an interval tells: more, less, neither yet, or too few to say. */
type Verdict = 'more' | 'less' | 'open' | 'thin'

type Percentiles = { p50: number, p95: number }
type Figures = {
	requests: number, errors: number, aborted: number, streamed: number, unknown: number, refused: number, input_tokens: number, output_tokens: number, cache_read_input_tokens: number,
	reasoning_output_tokens: number, cost: string | null, cost_estimated: boolean, cost_unknown: number, duration_ms: Percentiles | null, first_content_ms: Percentiles | null, feedback: Record<string, Score>,
}
/** UsageKey has what a report is by. Its version and its preset are also in a workspace's report by version. */
type UsageKey = { version?: number | null, preset?: string | null, key?: string | null, other?: boolean }
type UsageSeries = { key: UsageKey, total: Figures, points: (Figures & { time: string })[] }
type UsageReport = { from: string, to: string, step: 'hour' | 'day', by: string, series: UsageSeries[] }
/** DrawnSeries is a series as charts show it: one of the report, or the sum of several. */
type DrawnSeries = { name: string, style: number, total: Figures, points: Figures[] }
type Metric = { name: string, scale: string, of: (figures: Figures) => number | null, text: (n: number) => string, axis: (n: number) => string, isWhole: boolean, areBars?: boolean, missing?: string }
/** ChartEvent is a change that charts show as a line. */
type ChartEvent = { time: number, text: string, all?: string }
/** ChartState is what charts keep when they are drawn again: the marked time, and whether all are shown. */
type ChartState = { marked: string, isOpen: boolean }
type ChartOptions = {
	name: string, describedBy: string, lines: { style: number, values: (number | null)[] }[], areBars: boolean, events: ChartEvent[], times: number[], step: number, largest: number,
	isWhole: boolean, format: (n: number) => string, onMark: (index: number) => void,
}
type MakeChart = (options: ChartOptions) => { element: HTMLElement, mark: (index: number) => void }
/** UsageScope is what a usage view is about: its paths in the API and its own, and a part that only presets have. */
type UsageScope = {
	name: string, by: string[], path: (query: Query) => string, address: (query: Query) => string,
	below: (report: UsageReport) => Child, history: string,
	/** Returns the names of keys by their ids, if a report can be by key. */
	keyNames?: () => Promise<Map<string, string>>,
}
/** Cell is what a row of a table has in a column. */
type Cell = [column: string, content: Child | Child[]]
