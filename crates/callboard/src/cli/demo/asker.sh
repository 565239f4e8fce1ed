# Plays an agent of the demo that speaks the Agent Client Protocol and asks before it pushes.
say() {
    printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}}}'
}
read -r hello
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r new
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
read -r prompt
say 'The notes of the release are written. The tag is v1.0.\n'
echo '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t","kind":"execute","title":"Push the tag","rawInput":{"command":"git push origin v1.0"}},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}'
read -r answer
case "$answer" in
*'"optionId":"yes"'*)
    echo 'v1.0' > RELEASE
    say 'I would push now; the demo has no remote. RELEASE names the tag.\n<complete/>'
    ;;
*) say '<blocked reason=\"the push was refused\"/>' ;;
esac
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r nothing
