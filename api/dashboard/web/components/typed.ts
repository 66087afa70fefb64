import { useState } from 'react'

/**
 * What a field shows whose value is no text, such as a number or a time: what was typed, while the value is the one it
 * means. So an emptied field stays empty, and half of a date stays as it is.
 */
export function useTyped<Text, Value>(
  value: Value,
  textOf: (value: Value) => Text,
): [shown: Text, type: (text: Text, meant: Value) => void] {
  const [typed, setTyped] = useState<{ text: Text; meant: Value } | null>(null)
  const shown = typed !== null && typed.meant === value ? typed.text : textOf(value)
  return [shown, (text, meant) => setTyped({ text, meant })]
}
