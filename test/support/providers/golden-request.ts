/** A request that uses every part of our dialect which providers write differently; each adapter's tests have its translation. */
export const goldenRequest = {
  max_completion_tokens: 300,
  temperature: 0.2,
  stop: ['END'],
  parallel_tool_calls: false,
  user: 'u1',
  messages: [
    { role: 'system', content: 'A' },
    { role: 'developer', content: 'B' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'weather?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'w', arguments: '{"city":"Oslo"}' } },
        { id: 'call_2', type: 'function', function: { name: 'w', arguments: '{"city":"Rome"}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: '5C' },
    { role: 'tool', tool_call_id: 'call_2', content: '{"t":20}' },
    { role: 'user', content: 'thanks' },
  ],
  tools: [
    {
      type: 'function',
      function: {
        name: 'w',
        description: 'd',
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
      },
    },
  ],
  tool_choice: 'required',
}
