import { z } from 'zod'

/** The reasoning efforts of OpenAI's chat format, from the least to the greatest. */
export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof efforts)[number]

/** The largest budgets of reasoning, in tokens, that count as low and as medium effort. */
const maxLowBudget = 2_048
const maxMediumBudget = 8_192

export function effortOfBudget(tokens: number): Effort {
  if (tokens <= maxLowBudget) return 'low'
  return tokens <= maxMediumBudget ? 'medium' : 'high'
}

const fields = z.array(z.string().min(1)).min(1)

/**
 * What a provider, or one model there, accepts in a chat request beside or instead of what OpenAI's own API does. A
 * deployment's members override those of its provider. The sources of the shipped values are in
 * docs/decisions/chat-profiles.md.
 */
export const chatProfile = z
  .strictObject({
    /** Whether messages may have the role `developer`; else it is sent as `system`. */
    developer_role: z.boolean(),
    /** Whether system messages may follow other messages. */
    system_turns: z.boolean(),
    /** Whether a conversation may consist of system messages only; else they are sent as the user's. */
    system_only: z.boolean(),
    /** Whether a conversation may begin with the assistant; else a message of the user is put before. */
    assistant_first: z.boolean(),
    /**
     * Whether a user message may follow the result of a tool. Else, by the same order of roles, a short assistant message
     * is put between, and system messages after the first other message are sent as the user's.
     */
    user_after_tool: z.boolean(),
    /** The last message may be the assistant's: as it is, without white space at its end, marked with `prefix`, or not at all. */
    prefill: z.enum(['plain', 'trimmed', 'prefix', 'none']),
    /** Members of messages beside their role, content and tool calls; absent: all that the gateway sends. */
    message_fields: z.array(z.string().min(1)),
    /** Whether the provider accepts refusals in earlier answers, as a member or as a part. If not, they are sent as text. */
    refusals: z.boolean(),
    /** Whether members of messages may be null. */
    null_fields: z.boolean(),
    /** Whether the content of messages may be a list of texts; that of users may be a list with others in any case. */
    list_content: z.boolean(),
    /** Whether it fetches images by their https URLs (Anthropic's protocol); else the gateway does. */
    image_urls: z.boolean(),
    /** The most images in a request. */
    max_images: z.int().positive(),
    /** The member for the reasoning text of earlier answers; `none`: the provider does not read it. */
    reasoning_field: z.enum(['reasoning_content', 'reasoning', 'none']),
    /**
     * The form of a tool call's id. `max_64`: at most 64 characters. `word_64`: of these only letters, digits, `_` and
     * `-`. `alphanumeric_9`: exactly nine letters and digits. `signed`: with the
     * provider's own state in it.
     */
    tool_call_id: z.enum(['any', 'max_64', 'word_64', 'alphanumeric_9', 'signed']),
    /**
     * Whether items of its Responses may have any id; else those are left out that do not begin with the letters of their type, or are
     * longer than 64 characters.
     */
    any_item_ids: z.boolean(),
    /** Whether a tool call's id may occur once in a conversation only. */
    unique_call_ids: z.boolean(),
    /** Whether the arguments of an earlier call may be any text; else what is no JSON object is sent within one. */
    any_arguments: z.boolean(),
    /** `dotted_64`: dots and colons, too. `lettered_64`: a letter first. */
    tool_name: z.enum(['word_64', 'word_128', 'dotted_64', 'lettered_64']),
    max_tools: z.int().positive(),
    /** Whether the model takes tools of the type `custom`; else each is sent as a function with one text. */
    custom_tools: z.boolean(),
    /** Whether `tool_choice` may be `allowed_tools`; else the other tools are left out. */
    allowed_tools: z.boolean(),
    /** Whether `tool_choice` may be `validated`, Gemini's mode that keeps calls to their schemas; else it is `auto`. */
    validated_tools: z.boolean(),
    /** Whether calls of a tool can be held to its schema (`strict`). `all`: of every tool of a request or of none. */
    strict_tools: z.union([z.boolean(), z.literal('all')]),
    /**
     * The schemas that may be `strict`, of tools and answers. `closed_required`: objects permit no other properties and require
     * all, as in OpenAI's strict mode; else the schema is sent without `strict`.
     */
    strict_schemas: z.enum(['any', 'closed_required']),
    /**
     * The most, in one request, of what is compiled to a grammar: strict tools, and properties that are not required and nodes of
     * several types in their schemas and that of the answer. Further tools are not strict, a larger schema of the answer is asked
     * for in another way.
     */
    grammar_limits: z.strictObject({
      tools: z.int().positive(),
      optional_properties: z.int().positive(),
      unions: z.int().positive(),
    }),
    /** Whether its Responses load tools by a search (`tool_search`, `defer_loading`). */
    tool_search: z.boolean(),
    /** Whether the model can be forced to call a tool; else the system prompt asks it to. */
    forced_tools: z.boolean(),
    /** Whether it can be forced while it reasons. */
    forced_tools_while_reasoning: z.boolean(),
    /** Whether one request may have both tools and a JSON format. */
    tools_with_format: z.boolean(),
    /** Whether it has a JSON mode; else `json_object` is an instruction in the system prompt. */
    json_mode: z.boolean(),
    /** Whether the JSON mode requires the word JSON in the messages: where they lack it, a line of the system prompt has it. */
    json_word: z.boolean(),
    /** Whether an answer may be asked for by a JSON schema, where its model's row has `structured_outputs`. */
    schema_format: z.boolean(),
    /** The highest limit of output of a request for a whole answer; above it the gateway collects a stream. */
    max_unstreamed_tokens: z.int().positive(),
    /** Whether an answer with a JSON format may be streamed. */
    stream_with_format: z.boolean(),
    /**
     * The subset of JSON Schema. `with_properties`: objects state their properties. `closed_objects`: objects permit no
     * others, and only the keywords of a grammar are known. `bare_references`: nothing stands beside a `$ref`, and there are neither
     * `definitions`, `allOf` nor `patternProperties`. `typed_nodes`:
     * each node states its type, as Moonshot's dialect requires. `bare_root`: a tool's parameters state their properties and which are
     * required, and nothing else, so that there are no definitions to refer to.
     */
    schema: z.enum(['with_properties', 'closed_objects', 'bare_references', 'typed_nodes', 'bare_root']),
    /**
     * Whether the parameters of a tool may have alternatives at their root (`anyOf`, `oneOf`, `allOf`), or `not`, `enum` or `const`;
     * else they are merged into one object, and its description tells of them.
     */
    root_combinators: z.boolean(),
    /** The keys of a tool's parameters; `dotted_64`: at most 64 letters, digits, dots, `_` and `-`, else others are sent. */
    property_key: z.enum(['any', 'dotted_64']),
    /** `one`: `temperature` or `top_p`. `greedy`: `top_p` is 1 beside a temperature of 0. `default`: no other values than the default, while the model reasons. */
    sampling: z.enum(['all', 'one', 'greedy', 'default', 'none']),
    /** The most answers (`n`) to a request. */
    max_choices: z.int().positive(),
    /** The highest temperature, where it is below OpenAI's. */
    max_temperature: z.number().positive(),
    /** Further fields of the request that the model refuses. */
    refused_fields: fields,
    /** Whether a stop sequence may consist of white space. */
    blank_stops: z.boolean(),
    max_stops: z.int().positive(),
    /**
     * Where the gateway marks what is to be cached, if there is a price for it: nowhere, since prompts are cached without;
     * in messages only; or the end of the request at its top level.
     */
    cache_marks: z.enum(['none', 'messages', 'top_level']),
    /** Whether an earlier answer may be without a word or a call; else it is left out. */
    empty_answers: z.boolean(),
    /** The earlier answers that must have `reasoning_content`, while the model reasons: each, or those with calls of tools. */
    reasoning_required: z.enum(['all', 'calls']),
    /** Whether `user` may be an e-mail address or a telephone number; else it is sent as its digest. */
    contact_ids: z.boolean(),
    /** The most characters of `user`, `safety_identifier` and `prompt_cache_key`; a longer one is sent as its digest. */
    max_id_characters: z.int().min(64),
    /** The values of `reasoning_effort`; absent: `none` to `high` where the model has the setting. */
    efforts: z.array(z.enum([...efforts, 'default'])).min(1),
    /** Greater efforts that the model takes in Responses only. */
    responses_efforts: z.array(z.enum(efforts)).min(1),
    /** How reasoning is turned off: by the effort `none`, by `thinking: {"type": "disabled"}`, or by `enable_thinking: false`. */
    effort_off: z.enum(['effort', 'thinking', 'enable_thinking']),
    /** The only effort at which the model takes functions as tools in chat completions; others are served by Responses, if its provider has these. */
    tools_effort: z.enum(efforts),
    /** Whether the model takes functions as tools in chat completions; else all such requests are served by Responses. */
    chat_tools: z.boolean(),
  })
  .partial()

export type GivenProfile = z.infer<typeof chatProfile>
type Optional =
  | 'message_fields'
  | 'reasoning_required'
  | 'efforts'
  | 'responses_efforts'
  | 'tools_effort'
  | 'refused_fields'
  | 'max_id_characters'
  | 'max_tools'
  | 'grammar_limits'
  | 'max_unstreamed_tokens'
  | 'max_temperature'
  | 'max_images'
  | 'max_choices'
/** A profile with its defaults. */
export type ChatProfile = Required<Omit<GivenProfile, Optional>> & Pick<GivenProfile, Optional>
