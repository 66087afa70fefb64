import { NumberInput, type NumberInputProps } from '@mantine/core'
import { useTyped } from './typed.ts'

type Props = Omit<NumberInputProps, 'value' | 'onChange' | 'required'> & {
  value: number
  onChange: (value: number) => void
}

/** A number that is required. While its field is empty the value stays what it was, and the form cannot be sent. */
export function NumberField({ value, onChange, ...input }: Props) {
  const [shown, type] = useTyped<number | string, number>(value, number => number)
  const change = (text: number | string) => {
    const number = Number(text)
    const meant = text === '' || Number.isNaN(number) ? value : number
    type(text, meant)
    onChange(meant)
  }
  return <NumberInput {...input} required value={shown} onChange={change} />
}
