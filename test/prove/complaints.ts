/** As failoverbench has them: whole, whole with a flaw, a bounded and clean error, anything else. */
export type Verdict = 'pass' | 'partial' | 'safe' | 'fail'

/** A fault or a complaint, and the tests that show what becomes of it. */
export type NamedTests = {
  name: string
  /** Where others report it. */
  seenAt?: string
  /** What others come to. */
  peers?: Record<string, Verdict>
  /** What it comes to when its tests pass, where that is not a pass. */
  verdict?: Verdict
  note?: string
  /** By file, below `test`, and title, in which `*` stands for what differs from case to case. */
  tests: readonly (readonly [file: string, title: string])[]
}

const chat = 'chat/complaints.test.ts'

/**
 * What users of other gateways complain about in production, with where they do, and the tests that show how this one behaves.
 * In a title, `*` stands for what differs from case to case.
 */
export const complaints: readonly NamedTests[] = [
  {
    name: '1. Streamed usage is missing or estimated',
    seenAt: 'LiteLLM PR#35290, #38065',
    tests: [
      [chat, 'complaint 1, streamed usage missing or estimated: exact, and no chunk more than was asked for'],
      ['providers/openai/adapter.test.ts', 'sent: a stream asks for its usage unless the server does not know how'],
      ['chat/streams/stream.test.ts', '200 with the content untouched: * (include_usage: *)'],
    ],
  },
  {
    name: '2. Cached tokens are billed twice',
    seenAt: 'LiteLLM #14849, PR#37407',
    tests: [
      [chat, 'complaint 2, cached tokens billed twice: each token is in one class, whatever else it is counted as'],
      ['chat/usage-classes.test.ts', 'every token in exactly one class, charged once, by chat and by Messages: *'],
    ],
  },
  {
    name: '3. Cached tokens are lost in streams only',
    seenAt: 'new-api #6144, LiteLLM #11364',
    tests: [[chat, 'complaint 3, cached tokens lost in streams: a stream costs what the whole answer costs']],
  },
  {
    name: '4. A broken stream is charged wrongly',
    seenAt: 'new-api #5288, #7486, #4168, #7062',
    tests: [
      [chat, 'complaint 4, broken streams charged wrongly: what was delivered once, an error in a whole answer never'],
      ['slow/chat/streams/stream-broken.test.ts', '200, then one error event, billed as delivered, *: *'],
      [
        'providers/openai/responses.test.ts',
        'streams that break end with `response.failed`, billed once for what was delivered',
      ],
    ],
  },
  {
    name: '5. The client leaves, and the provider is paid for nothing',
    seenAt: 'LiteLLM PR#36008, #37140; new-api #4184',
    tests: [
      [
        'chat/streams/disconnect.test.ts',
        '499 *: the client leaves in the middle: upstream aborted, what was produced is billed',
      ],
      [
        'chat/streams/disconnect.test.ts',
        '499 the client leaves while a whole answer is made: it is billed as its provider counts it',
      ],
    ],
  },
  {
    name: '6. A cut stream is blamed on the caller',
    seenAt: 'LiteLLM #41777',
    tests: [
      [chat, 'complaint 6, a cut stream blamed on the caller: an error of the provider, whatever type it states'],
      ['chat/provider-refusals.test.ts', '* for an event with *'],
    ],
  },
  {
    name: '7. Failover is defeated by a preamble',
    seenAt: 'Bifrost v2.2.2, ai-retry #51, LiteLLM PR#38606',
    tests: [
      ['slow/chat/streams/stream-broken.test.ts', '200 from another provider, * before the first piece: *'],
      ['providers/openai/responses.test.ts', 'a failure before the first item is retried, not passed'],
    ],
  },
  {
    name: '8. A retry after output repeats text or arguments',
    seenAt: 'NuGuard #455, open-interpreter #291',
    tests: [[chat, 'complaint 8, a retry after output repeats arguments: an error event, and no second start']],
  },
  {
    name: '9. A stream never ends',
    seenAt: 'Bifrost v2.1.0 (#6799, #6948)',
    tests: [
      [chat, 'complaint 9, a stream that never ends: whole after its last choice, though comments go on'],
      ['chat/streams/timeout.test.ts', '504 when a provider sends nothing but comments for the time of silence'],
    ],
  },
  {
    name: '10. Silence before the first token',
    seenAt: 'LiteLLM PR#37322, axonhub #2146, grok2api #1050',
    tests: [
      [chat, 'complaint 10, silence before the first token: signs of life between the events of *'],
      [
        'chat/streams/broken.test.ts',
        '200, then an error event, when every provider fails after keep-alives have opened the stream',
      ],
    ],
  },
  {
    name: '11. Parallel tool calls share index 0',
    seenAt: 'LiteLLM PR#16194, gcli2api #406, any-llm #970',
    tests: [[chat, 'complaint 11, parallel calls share index 0: three calls for the client']],
  },
  {
    name: '12. Reasoning is lost, or refused, on the next turn',
    seenAt: 'Bifrost #5887, #6949',
    tests: [
      [
        'providers/profile/fit-chat.test.ts',
        'sent: reasoning of earlier answers under the name that the provider reads, or not at all',
      ],
      [
        'providers/profile/fit-chat.test.ts',
        'sent: messages without nulls, empty lists and members that a strict provider forbids',
      ],
    ],
  },
  {
    name: '13. Thinking signatures cross providers',
    seenAt: 'oh-my-pi #10486, nagobot #21, Bifrost #6834',
    tests: [
      [
        'slow/providers/profile/matrix.test.ts',
        'failover from * (*) to every other provider keeps the conversation valid',
      ],
      [
        'chat/translation/reasoning-state.test.ts',
        '200 Anthropic, *: thinking and its signature come back byte-equal before the tool call',
      ],
    ],
  },
  {
    name: '14. Encrypted items cross accounts',
    seenAt: 'copilot-api #339',
    tests: [
      ['chat/translation/reasoning-state.test.ts', '200 without the state from another account while its own rests'],
    ],
  },
  {
    name: '15. Schemas and results with references at Gemini',
    seenAt: 'opencode #12295, DEEIX-Chat #546, OmniRoute #1421, vercel/ai #14369',
    tests: [
      [chat, 'complaint 15, schemas and results with references: Gemini takes them'],
      [
        'providers/profile/fit-chat.test.ts',
        'sent: schemas in the subset of each provider; what is left out is told in the description',
      ],
    ],
  },
  {
    name: '16. Patterns that providers refuse',
    seenAt: 'Bifrost #7430',
    tests: [
      [chat, 'complaint 16, patterns that providers refuse: a tool with a lookaround and \\0 is called all the same'],
    ],
  },
  {
    name: '17. Empty things',
    seenAt: 'Bifrost #2765, #6732, #7396',
    tests: [
      [chat, 'complaint 17, empty things: blank texts, contents that are null, and results with an empty name'],
      [
        'chat/translation/messages-over-chat.test.ts',
        'new-api PR#2892: empty blocks are left out, and a tool may answer nothing',
      ],
    ],
  },
  {
    name: '18. The name of the token limit',
    seenAt: '9router #846, Bifrost #6132, lq-ai #157',
    tests: [
      [
        'providers/openai/adapter.test.ts',
        'sent: the output ceiling in the field the server reads, the gateway’s before the caller’s',
      ],
      ['providers/profile/fit-chat.test.ts', 'sent: no more tokens than the model writes, and the digest of a long id'],
    ],
  },
  {
    name: '19. The effort is mapped down or ignored in silence',
    seenAt: 'Bifrost #7402, #6881; LLM Gateway #3051',
    tests: [['providers/profile/fit-chat.test.ts', 'sent effort: * at * as *']],
  },
  {
    name: '20. A JSON schema is dropped on fallback',
    seenAt: 'LLM Gateway #2419, LiteLLM PR#39070',
    tests: [
      [chat, 'complaint 20, a schema lost on the fallback: the model that takes over is given it, in its own form'],
    ],
  },
  {
    name: '21. A prompt cache is written and never read; its marks are dropped',
    seenAt: 'LLM Gateway #3918, Bifrost #7336, LiteLLM #6784',
    tests: [
      ['chat/prompt-cache.test.ts', 'charged: a prompt written for * and then read, in *'],
      ['chat/prompt-cache.test.ts', 'dropped and named where the provider takes no marks'],
      [
        'chat/cache-marks.test.ts',
        '200: a conversation of Codex with Claude reads what it repeats at the price of the cache',
      ],
    ],
  },
  {
    name: '22. `count_tokens` is wrong or missing',
    seenAt: 'LiteLLM #37102, #13252; CLIProxyAPI #679',
    tests: [
      [
        'chat/translation/messages-translated.test.ts',
        'count_tokens: as counted where the tokenizer is the model’s own, 15 % more elsewhere (copilot-api#134)',
      ],
      [
        'providers/anthropic/messages-native.test.ts',
        'count_tokens: the provider’s count, free; ours where it fails, rounded up',
      ],
    ],
  },
  {
    name: '23. A context overflow cannot be recognised',
    seenAt: 'claude-code-router #1799, helm-api #702, suna #6368, claude-code #86507',
    tests: [
      [
        'api/messages.test.ts',
        'too long: in the two forms that clients parse, never as an unavailable provider (claude-code-router#1799)',
      ],
      ['providers/openai/overflow.test.ts', '* of * for a prompt that is too long is context_length'],
      ['slow/chat/faults/table.test.ts', '400 of the first model when larger ones fail (stream: *)'],
    ],
  },
  {
    name: '24. What Codex sends: compressed bodies, compaction, namespaces',
    seenAt: 'cc-switch-cli #469, CLIProxyAPI PR#5857, preloop #159, Bifrost #7425',
    tests: [
      [
        'providers/openai/compaction.test.ts',
        '200 from /v1/responses/compact for every model: the user’s messages and the compaction',
      ],
      [
        'chat/translation/responses-over-chat.test.ts',
        'the second turn of Codex: calls, custom and of a namespace, with their outputs',
      ],
      ['api/compressed-bodies.test.ts', '413 for a bomb before it is memory, by one coding or several'],
    ],
  },
  {
    name: '25. A change of a key is undone by what was cached',
    seenAt: 'LiteLLM #25553, #9820, #35662',
    tests: [
      [
        'slow/keys/keys-in-force.test.ts',
        '200 under the later of two changes at a time, however their steps interleave with requests',
      ],
      [
        'chat/streams/revoked.test.ts',
        'revoked_api_key ends a running stream, the provider is stopped and what was produced is billed; other keys’ go on',
      ],
      [
        'slow/wallet/ledger/restored-stores.test.ts',
        '401 for a key that was revoked after the snapshot, also where another process had its policy',
      ],
    ],
  },
  {
    name: '26. The allowlist is bypassed',
    seenAt: 'LiteLLM #41810, PR#39998, #41295; langwatch #6158',
    tests: [
      ['keys/keys.test.ts', '403 model_not_allowed outside the allowlist; auto and the model list stay within it'],
      [
        'routing/catalog-overrides.test.ts',
        'an alias works in /v1/models, /v1/route, chat, allowlists and batches; 400 for a taken name',
      ],
      [
        'batches/batches.test.ts',
        'completed with an error file: what a provider refuses, and what the key may not use',
      ],
      [
        'kinds/job-inputs.test.ts',
        '403 model_not_allowed outside the allowlist, and the first allowed model without a name',
      ],
    ],
  },
  {
    name: '27. A cap is overshot',
    seenAt: 'LiteLLM PR#40002, #26672, #16011',
    tests: [
      [
        'slow/wallet/money.test.ts',
        '402 or 200 for 500 concurrent requests on a cap that fits 100, over two web processes',
      ],
      ['catalog/prices.test.ts', 'reserved: no usage of the classes in play costs more than the dearest rates'],
    ],
  },
  {
    name: '28. Redis is away or frozen',
    seenAt: 'LiteLLM PR#35273, #35533, #32232',
    tests: [
      ['slow/api/outage.test.ts', '503 for everything served while Redis is away, 200 once it is back'],
      ['slow/api/outage.test.ts', '503 within ten seconds while Redis is frozen'],
      ['slow/api/outage.test.ts', '503 and never 500 while Redis says *'],
    ],
  },
  {
    name: '29. The database is under pressure',
    seenAt: 'LiteLLM #18708, #41499, #21908, #16582; commonly #468',
    tests: [
      ['slow/api/outage.test.ts', '503 for what needs Postgres while it is away, 200 once it is back'],
      ['slow/api/outage.test.ts', 'never 500 while PostgreSQL ends its connections under way'],
      [
        'wallet/ledger/ledger.test.ts',
        'partitioned: months are made ahead, by several workers at once, and old ones dropped',
      ],
    ],
  },
  {
    name: '30. Memory grows over days',
    seenAt: 'LiteLLM #27954, #13805, #18367; Bifrost #7406, #6143',
    verdict: 'partial',
    note: 'bounded per cause, and checked after each seed; not watched for a day',
    tests: [
      ['slow/api/bounded-memory.test.ts', 'bounded: every turn of the event loop: *'],
      [
        'slow/realtime/leaks.test.ts',
        'nothing is left of 500 sessions that ended in every way: no socket, timer, listener, seat or reservation',
      ],
      [
        'responses/recent-responses.test.ts',
        'turns without items take no memory, and are continued as the one before them',
      ],
    ],
  },
]
