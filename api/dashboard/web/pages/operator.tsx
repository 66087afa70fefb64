import { Page } from '../components/page.tsx'

export default function Operator() {
  return <Page title="Operator area">{null}</Page>
}
